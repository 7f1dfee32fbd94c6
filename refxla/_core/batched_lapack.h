/* Decompositions of several small matrices at once, one in each lane of a vector: element (i, j) of all of them is one
   vector. A lane computes what it would compute alone, each operation rounded once, so that results do not depend on
   the vectors' width or on the neighbours.

   batched_lapack.pyx includes this text once for each width of vectors and type of elements. It defines
   RX_BYTES     of a vector
   RX_TARGET    the attribute of functions that use such vectors
   RX_DOUBLE    whether elements are double, else float
   RX_NAME(x)   the name of a function for these

   Each function takes sizes (m, n, k) and flags as the routine's function in lapack.pyx does, and matrices by rows:
   that of lane l lies l * bytes[a] into p[a]. `lanes` is how many there are; the others repeat the last one. `work` is
   memory of RX_WORK_MATRICES matrices of RX_MOST_ROWS rows of vectors. */

#if RX_DOUBLE
typedef double RX_NAME(real);
typedef int64_t RX_NAME(whole);
#define SQRT __builtin_sqrt
#define FRACTION 52 /* bits */
#else
typedef float RX_NAME(real);
typedef int32_t RX_NAME(whole);
#define SQRT __builtin_sqrtf
#define FRACTION 23
#endif
#define REAL RX_NAME(real)
#define WHOLE RX_NAME(whole)
typedef REAL RX_NAME(V) __attribute__((vector_size(RX_BYTES)));
typedef WHOLE RX_NAME(M) __attribute__((vector_size(RX_BYTES)));
#define V RX_NAME(V)
#define M RX_NAME(M) /* a comparison's: all bits where it holds */
#define LANES ((int)(RX_BYTES / sizeof(REAL)))
#define SIGN ((WHOLE)1 << (8 * sizeof(REAL) - 1))
#define EXPONENTS ((WHOLE)((SIGN ^ -1) >> FRACTION << FRACTION)) /* all their bits */
#define STEP ((WHOLE)1 << FRACTION)                                 /* from one exponent to the next */
#define INLINE static inline __attribute__((always_inline)) RX_TARGET

INLINE V RX_NAME(where)(M condition, V yes, V no) { return (V)((condition & (M)yes) | (~condition & (M)no)); }
INLINE V RX_NAME(all)(REAL x) { return x - (V){}; }
INLINE V RX_NAME(size)(V x) { return (V)((M)x & ~SIGN); }
INLINE V RX_NAME(signed_as)(V x, V sign) { return (V)(((M)x & ~SIGN) | ((M)sign & SIGN)); }

INLINE V RX_NAME(root)(V x) {
    V result;
    for (int l = 0; l < LANES; ++l) result[l] = SQRT(x[l]);
    return result;
}

INLINE int RX_NAME(any)(M condition) {
    WHOLE found = 0;
    for (int l = 0; l < LANES; ++l) found |= condition[l];
    return found != 0;
}

/* The power of two by which numbers up to `largest` can be multiplied so that their squares neither overflow nor vanish. */
INLINE V RX_NAME(scale_of)(V largest) {
    M exponent = (M)largest & EXPONENTS;
    const M low = STEP - (M){}, high = EXPONENTS - 2 * STEP - (M){};
    exponent = (M)RX_NAME(where)(exponent < low, (V)low, (V)exponent);
    exponent = (M)RX_NAME(where)(exponent > high, (V)high, (V)exponent);
    return (V)(EXPONENTS - STEP - exponent);
}

INLINE void RX_NAME(load)(const char* from, int64_t bytes, int lanes, int count, V* to) {
    for (int l = 0; l < LANES; ++l) {
        const REAL* x = (const REAL*)(from + (l < lanes ? l : lanes - 1) * bytes);
        for (int e = 0; e < count; ++e) ((REAL*)to)[e * LANES + l] = x[e];
    }
}

INLINE void RX_NAME(store)(const V* from, int count, int lanes, int64_t bytes, char* to) {
    for (int l = 0; l < lanes; ++l) {
        REAL* x = (REAL*)(to + l * bytes);
        for (int e = 0; e < count; ++e) x[e] = ((const REAL*)from)[e * LANES + l];
    }
}

INLINE void RX_NAME(store_whole)(M from, int lanes, int64_t bytes, char* to) {
    for (int l = 0; l < lanes; ++l) *(int32_t*)(to + l * bytes) = (int32_t)from[l];
}

/* a[n, n] -> its factor, info. */
RX_TARGET static void RX_NAME(potrf)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) {
    V* a = (V*)work;
    const int row = flags[0] == 'U' ? n : 1, column = flags[0] == 'U' ? 1 : n; /* steps of the lower triangle */
    M info = {};
    RX_NAME(load)(p[0], bytes[0], lanes, n * n, a);
    for (int j = 0; j < n; ++j) {
        V pivot = a[j * (n + 1)];
        for (int r = 0; r < j; ++r) pivot -= a[j * row + r * column] * a[j * row + r * column];
        info |= (info == 0) & ~(pivot > 0) & (j + 1);
        pivot = a[j * (n + 1)] = RX_NAME(root)(pivot);
        for (int i = j + 1; i < n; ++i) {
            V x = a[i * row + j * column];
            for (int r = 0; r < j; ++r) x -= a[i * row + r * column] * a[j * row + r * column];
            a[i * row + j * column] = x / pivot;
        }
    }
    if (flags[1])
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) {
                const V x = (flags[0] == 'U' ? j > i : j < i) ? (V){} : a[i * n + j];
                a[i * n + j] = RX_NAME(where)(info == 0, x, RX_NAME(all)(NAN));
            }
    RX_NAME(store)(a, n * n, lanes, bytes[1], p[1]);
    RX_NAME(store_whole)(info, lanes, bytes[2], p[2]);
}

/* a[k, k], b[m, n] -> x. */
RX_TARGET static void RX_NAME(trsm)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) {
    V *a = (V*)work, *b = a + k * k;
    const int left = flags[0] == 'L', turned = (flags[2] == 'N') != left; /* matrices lie by columns in these words */
    const int lower = (flags[1] == 'L') != turned, unit = flags[3] == 'U';
    const int systems = left ? m : n, step = left ? 1 : n, next = left ? n : 1;
    const int row = turned ? k : 1, column = turned ? 1 : k, first = lower ? 0 : k - 1, on = lower ? 1 : -1;
    RX_NAME(load)(p[0], bytes[0], lanes, k * k, a);
    RX_NAME(load)(p[1], bytes[1], lanes, m * n, b);
    for (int system = 0; system < systems; ++system) {
        V* x = b + system * next;
        for (int i = 0, r = first; i < k; ++i, r += on) {
            V value = x[r * step];
            for (int j = 0, s = first; j < i; ++j, s += on) value -= a[r * row + s * column] * x[s * step];
            x[r * step] = unit ? value : value / a[r * (k + 1)];
        }
    }
    RX_NAME(store)(b, m * n, lanes, bytes[2], p[2]);
}

/* a[m, n] -> packed, pivots, info; with a flag, pivots from 0 on and the permutation in the place of info. */
RX_TARGET static void RX_NAME(getrf)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) {
    V *a = (V*)work, pivot_row[RX_MOST_ROWS], former[RX_MOST_ROWS];
    const int steps = m < n ? m : n, from = flags[0] ? 0 : 1;
    M info = {};
    RX_NAME(load)(p[0], bytes[0], lanes, m * n, a);
    for (k = 0; k < steps; ++k) {
        V best = RX_NAME(size)(a[k * n + k]);
        M at = k - (M){};
        for (int i = k + 1; i < m; ++i) {
            const V size = RX_NAME(size)(a[i * n + k]);
            const M more = (size > best) | ((size != size) & (best == best)); /* the first NaN, if there is one */
            best = RX_NAME(where)(more, size, best);
            at = (more & i) | (~more & at);
        }
        RX_NAME(store_whole)(at + from, lanes, bytes[2], p[2] + 4 * k);
        for (int j = 0; j < n; ++j) pivot_row[j] = former[j] = a[k * n + j];
        for (int i = k + 1; i < m; ++i) {
            const M chosen = at == i;
            for (int j = 0; j < n; ++j) {
                const V x = a[i * n + j];
                pivot_row[j] = RX_NAME(where)(chosen, x, pivot_row[j]);
                a[i * n + j] = RX_NAME(where)(chosen, former[j], x);
            }
        }
        for (int j = 0; j < n; ++j) a[k * n + j] = pivot_row[j];
        const M zero = pivot_row[k] == 0;
        const V divisor = RX_NAME(where)(zero, RX_NAME(all)(1), pivot_row[k]);
        info |= (info == 0) & zero & (k + 1);
        for (int i = k + 1; i < m; ++i) {
            const V factor = a[i * n + k] / divisor;
            a[i * n + k] = factor;
            for (int j = k + 1; j < n; ++j) a[i * n + j] -= factor * pivot_row[j];
        }
    }
    RX_NAME(store)(a, m * n, lanes, bytes[1], p[1]);
    if (!flags[0]) {
        RX_NAME(store_whole)(info, lanes, bytes[3], p[3]);
        return;
    }
    for (int l = 0; l < lanes; ++l) {
        const int32_t* pivots = (const int32_t*)(p[2] + l * bytes[2]);
        int32_t* order = (int32_t*)(p[3] + l * bytes[3]);
        for (int i = 0; i < m; ++i) order[i] = i;
        for (int i = 0; i < steps; ++i) {
            const int32_t other = order[pivots[i]];
            order[pivots[i]] = order[i];
            order[i] = other;
        }
    }
}

/* a[m, n] -> packed, tau. */
RX_TARGET static void RX_NAME(geqrf)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) {
    V *a = (V*)work, tau[RX_MOST_ROWS];
    const int steps = m < n ? m : n;
    RX_NAME(load)(p[0], bytes[0], lanes, m * n, a);
    for (k = 0; k < steps; ++k) {
        const V alpha = a[k * n + k];
        V largest = {};
        for (int i = k + 1; i < m; ++i) {
            const V size = RX_NAME(size)(a[i * n + k]);
            largest = RX_NAME(where)(~(size <= largest), size, largest);
        }
        const M none = largest == 0; /* nothing to reflect */
        largest = RX_NAME(where)(RX_NAME(size)(alpha) > largest, RX_NAME(size)(alpha), largest);
        const V scale = RX_NAME(scale_of)(largest), first = alpha * scale;
        V sum = first * first;
        for (int i = k + 1; i < m; ++i) sum += (a[i * n + k] * scale) * (a[i * n + k] * scale);
        const V beta = RX_NAME(signed_as)(RX_NAME(root)(sum), -first);
        const V divisor = RX_NAME(where)(none, RX_NAME(all)(1), first - beta);
        tau[k] = RX_NAME(where)(none, (V){}, (beta - first) / beta);
        a[k * n + k] = RX_NAME(where)(none, alpha, beta / scale);
        for (int i = k + 1; i < m; ++i) a[i * n + k] = a[i * n + k] * scale / divisor;
        for (int j = k + 1; j < n; ++j) {
            V projection = a[k * n + j];
            for (int i = k + 1; i < m; ++i) projection += a[i * n + k] * a[i * n + j];
            projection *= tau[k];
            a[k * n + j] -= projection;
            for (int i = k + 1; i < m; ++i) a[i * n + j] -= a[i * n + k] * projection;
        }
    }
    RX_NAME(store)(a, m * n, lanes, bytes[1], p[1]);
    RX_NAME(store)(tau, steps, lanes, bytes[2], p[2]);
}

/* packed[m, n], tau[k] -> the first n columns of Q. */
RX_TARGET static void RX_NAME(orgqr)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) {
    V *q = (V*)work, tau[RX_MOST_ROWS];
    RX_NAME(load)(p[0], bytes[0], lanes, m * n, q);
    RX_NAME(load)(p[1], bytes[1], lanes, k, tau);
    for (int j = k; j < n; ++j)
        for (int i = 0; i < m; ++i) q[i * n + j] = RX_NAME(all)(i == j);
    for (int r = k - 1; r >= 0; --r) {
        for (int j = r + 1; j < n; ++j) {
            V projection = q[r * n + j];
            for (int i = r + 1; i < m; ++i) projection += q[i * n + r] * q[i * n + j];
            projection *= tau[r];
            q[r * n + j] -= projection;
            for (int i = r + 1; i < m; ++i) q[i * n + j] -= q[i * n + r] * projection;
        }
        for (int i = 0; i < r; ++i) q[i * n + r] = (V){};
        q[r * n + r] = 1 - tau[r];
        for (int i = r + 1; i < m; ++i) q[i * n + r] *= -tau[r];
    }
    RX_NAME(store)(q, m * n, lanes, bytes[2], p[2]);
}

/* a[n, n] -> vectors, values (ascending), info: by cyclic Jacobi rotations, in sweeps over all pairs of rows. A lane
   rests once none of its elements beside the diagonal counts any more. */
RX_TARGET static void RX_NAME(syevd)(
    int m, int n, int k, const char* flags, char** p, const int64_t* bytes, int lanes, char* work
) {
    V *a = (V*)work, *v = a + n * n, largest = {}; /* of a, the elements (i, j) with i <= j are used */
    const int lower = flags[1] == 'L';
    RX_NAME(load)(p[0], bytes[0], lanes, n * n, v);
    M finite = ~(M){};
    for (int i = 0; i < n; ++i)
        for (int j = i; j < n; ++j) {
            const V x = v[lower ? j * n + i : i * n + j], size = RX_NAME(size)(x);
            a[i * n + j] = x;
            finite &= ((M)x & EXPONENTS) != EXPONENTS;
            largest = RX_NAME(where)(size > largest, size, largest);
        }
    const V scale = RX_NAME(scale_of)(largest);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            if (i <= j) a[i * n + j] = RX_NAME(where)(finite, a[i * n + j] * scale, (V){});
            v[i * n + j] = RX_NAME(all)(i == j);
        }
    const V little = largest * scale * (REAL)(0.0625 / STEP);
    M active = {};
    for (int sweep = 0; sweep < 40; ++sweep) {
        V off = {};
        for (int i = 0; i < n; ++i)
            for (int j = i + 1; j < n; ++j) {
                const V size = RX_NAME(size)(a[i * n + j]);
                off = RX_NAME(where)(size > off, size, off);
            }
        active = finite & (off > little);
        if (!RX_NAME(any)(active)) break;
        for (int r = 0; r < n; ++r)
            for (int s = r + 1; s < n; ++s) {
                const V given = a[r * n + s];
                const V theta = (a[s * n + s] - a[r * n + r]) / (given + given);
                const V size = RX_NAME(size)(theta);
                V t = RX_NAME(signed_as)(1 / (size + RX_NAME(root)(theta * theta + 1)), theta);
                t = RX_NAME(where)(active & (given != 0), t, (V){});
                const V cosine = 1 / RX_NAME(root)(t * t + 1), sine = t * cosine, tau = sine / (1 + cosine);
                a[r * n + r] -= t * given;
                a[s * n + s] += t * given;
                a[r * n + s] = (V){};
                for (int i = 0; i < n; ++i) {
                    if (i != r && i != s) {
                        V* x = a + (i < r ? i * n + r : r * n + i);
                        V* y = a + (i < s ? i * n + s : s * n + i);
                        const V g = *x, h = *y;
                        *x = g - sine * (h + g * tau);
                        *y = h + sine * (g - h * tau);
                    }
                }
                if (flags[0] == 'V')
                    for (int i = 0; i < n; ++i) { /* row r of v is the vector of value r */
                        const V g = v[r * n + i], h = v[s * n + i];
                        v[r * n + i] = g - sine * (h + g * tau);
                        v[s * n + i] = h + sine * (g - h * tau);
                    }
            }
    }
    const M info = (~finite | active) & 1;
    for (int i = 0; i < n; ++i) a[i * (n + 1)] /= scale;
    for (int l = 0; l < lanes; ++l) {
        REAL *vectors = (REAL*)(p[1] + l * bytes[1]), *values = (REAL*)(p[2] + l * bytes[2]);
        int order[RX_MOST_ROWS];
        for (int i = 0; i < n; ++i) {
            int at = i;
            for (; at > 0 && a[order[at - 1] * (n + 1)][l] > a[i * (n + 1)][l]; --at) order[at] = order[at - 1];
            order[at] = i;
        }
        for (int j = 0; j < n; ++j) {
            values[j] = info[l] ? NAN : a[order[j] * (n + 1)][l];
            for (int i = 0; i < n; ++i)
                vectors[i * n + j] = flags[0] != 'V' ? 0 : info[l] ? NAN : v[order[j] * n + i][l];
        }
    }
    RX_NAME(store_whole)(info, lanes, bytes[3], p[3]);
}

static const rx_batched_routine RX_NAME(routines)[] = {
    RX_NAME(potrf), RX_NAME(trsm), RX_NAME(getrf), RX_NAME(geqrf), RX_NAME(orgqr), RX_NAME(syevd),
};

#undef V
#undef M
#undef LANES
#undef SIGN
#undef EXPONENTS
#undef STEP
#undef INLINE
#undef REAL
#undef WHOLE
#undef FRACTION
#undef SQRT
#undef RX_DOUBLE
#undef RX_NAME
