"""Images."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..models.values import normal
from .inputs import grid, image, uniform
from .registry import program


@program("images", image, side=(512, 16))
def bilinear_resize(pixels: Array) -> Array:
    side = pixels.shape[0]
    return jax.image.resize(pixels, (side * 3 // 4, side * 3 // 4, 3), "bilinear")


@program("images", grid, side=(1024, 12))
def edges_by_sobel(pixels: Array) -> Array:
    p = jnp.pad(pixels, 1, mode="edge")
    down = p[:-2] + 2 * p[1:-1] + p[2:]
    across = p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    return jnp.hypot(down[:, 2:] - down[:, :-2], across[2:] - across[:-2])


@program("images", grid, side=(1024, 12))
def histogram_equalization(pixels: Array) -> Array:
    level = jnp.clip((pixels**2 * 256).astype(jnp.int32), 0, 255)
    share = jnp.cumsum(jnp.bincount(level.reshape(-1), length=256)) / pixels.size
    return share[level]


@program("images", image, side=(512, 24))
def gaussian_blur(pixels: Array) -> Array:
    x = jnp.arange(-7, 8) / 3.0
    taps = jnp.exp(-0.5 * x * x)
    taps = taps / taps.sum()
    planes = pixels.transpose(2, 0, 1)[:, None]
    planes = lax.conv(planes, taps[None, None, :, None], (1, 1), "SAME")
    return lax.conv(planes, taps[None, None, None, :], (1, 1), "SAME")[:, 0]


@program("images", grid, side=(512, 12))
def rotation(pixels: Array) -> Array:
    side = pixels.shape[0]
    y, x = jnp.indices((side, side)) - side / 2
    c, s = jnp.cos(0.3), jnp.sin(0.3)
    places = [c * y - s * x + side / 2, s * y + c * x + side / 2]
    return jax.scipy.ndimage.map_coordinates(pixels, places, order=1)


@program("images", lambda side: [(grid(side)[0] > 0.4)], side=(128, 10))
def connected_components(inside: Array) -> Array:
    """Labels are propagated until nothing changes."""
    labels = jnp.where(inside, jnp.arange(inside.size).reshape(inside.shape), -1)

    def iterate(state: tuple[Array, Array]) -> tuple[Array, Array]:
        labels, _ = state
        p = jnp.pad(labels, 1, constant_values=-1)
        most = jnp.maximum(jnp.maximum(p[:-2, 1:-1], p[2:, 1:-1]), jnp.maximum(p[1:-1, :-2], p[1:-1, 2:]))
        new = jnp.where(inside, jnp.maximum(labels, most), -1)
        return new, jnp.any(new != labels)

    return lax.while_loop(lambda s: s[1], iterate, (labels, True))[0]


@program("images", image, side=(1024, 8))
def hue_and_saturation(pixels: Array) -> Array:
    r, g, b = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    most, least = pixels.max(-1), pixels.min(-1)
    wide = most - least + 1e-6
    hue = jnp.where(most == r, (g - b) / wide, jnp.where(most == g, 2 + (b - r) / wide, 4 + (r - g) / wide))
    return jnp.stack([hue / 6, wide / (most + 1e-6), most], -1)


@program("images", lambda boxes: [grid(boxes)[0][:, :4]], boxes=(400, 8))
def suppressed_boxes(raw: Array) -> Array:
    """Non-maximum suppression: removes boxes that overlap a better one."""
    corner, size = raw[:, :2], raw[:, 2:4] * 0.3
    low, high = corner, corner + size
    both = jnp.minimum(high[:, None], high) - jnp.maximum(low[:, None], low)
    shared = jnp.prod(jnp.maximum(both, 0), -1)
    area = jnp.prod(size, -1)
    overlap = shared / (area[:, None] + area - shared + 1e-9)
    later = jnp.arange(len(raw))

    def iterate(k: Array, mask: Array) -> Array:
        return mask & ~(mask[k] & (overlap[k] > 0.3) & (later > k))

    return lax.fori_loop(0, len(raw), iterate, jnp.ones(len(raw), bool))


@program("images", grid, side=(512, 16))
def dilation_and_erosion(pixels: Array) -> Array:
    wide = lax.reduce_window(pixels, -jnp.inf, lax.max, (5, 5), (1, 1), "SAME")
    return lax.reduce_window(wide, jnp.inf, lax.min, (5, 5), (1, 1), "SAME")


@program("images", grid, side=(256, 16))
def bilateral_filter(pixels: Array) -> Array:
    """Neighbours weighted by distance and by difference in value: two sums over a window, in a Python loop."""
    radius, (height, width) = 5, pixels.shape
    around = jnp.pad(pixels, radius, mode="reflect")
    total = weights = jnp.zeros_like(pixels)
    for y in range(2 * radius + 1):
        for x in range(2 * radius + 1):
            shifted = around[y : y + height, x : x + width]
            squared_distance = (y - radius) ** 2 + (x - radius) ** 2
            weight = jnp.exp(-squared_distance / 18 - (shifted - pixels) ** 2 / 0.02)
            total, weights = total + weight * shifted, weights + weight
    return total / weights


@program("images", lambda n: [normal(n, 4), uniform(n, 3) + 0.1, normal(n, 3, seed=1)], n=(100_000, 50))
def projected_gaussians(turns: Array, scales: Array, centres: Array) -> Array:
    """The covariances of Gaussians in the plane of a camera, from quaternions: batches of matrices of 3 x 3."""
    w, x, y, z = jnp.moveaxis(turns / jnp.linalg.norm(turns, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    root = jnp.stack([jnp.stack(row, -1) for row in rows], -2) * scales[:, None]
    depth = 1 / (jnp.abs(centres[:, 2]) + 1)
    nothing = jnp.zeros_like(depth)
    view = jnp.stack(
        [
            jnp.stack([depth, nothing, -centres[:, 0] * depth**2], -1),
            jnp.stack([nothing, depth, -centres[:, 1] * depth**2], -1),
        ],
        -2,
    )
    seen = view @ root
    return seen @ jnp.swapaxes(seen, -1, -2)


@program("images", lambda count: [uniform(count, 64, 64, 16)], count=(8, 1))
def patches_of_images(pixels: Array) -> Array:
    count, height, width, features = pixels.shape
    tiles = pixels.reshape(count, height // 8, 8, width // 8, 8, features).transpose(0, 1, 3, 2, 4, 5)
    return tiles.reshape(count, (height // 8) * (width // 8), -1) - 0.5
