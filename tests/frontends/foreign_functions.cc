// Handlers of XLA's foreign function interface, as a user's library has them, for test_pjrt_foreign_functions.py.

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Vector = ffi::Buffer<ffi::F32>;
using VectorResult = ffi::ResultBuffer<ffi::F32>;

static ffi::Error Axpy(float a, Vector x, Vector y, VectorResult out) {
  for (size_t n = 0; n < x.element_count(); ++n) out->typed_data()[n] = a * x.typed_data()[n] + y.typed_data()[n];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(axpy, Axpy,
                              ffi::Ffi::Bind().Attr<float>("a").Arg<Vector>().Arg<Vector>().Ret<Vector>());

static ffi::Error Fail(int64_t code, std::string_view text, ffi::Result<ffi::AnyBuffer>) {
  return ffi::Error(static_cast<XLA_FFI_Error_Code>(code), std::string(text));
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fail, Fail, ffi::Ffi::Bind().Attr<int64_t>("code").Attr<std::string_view>("text").Ret<ffi::AnyBuffer>());

// Each attribute adds its own power of ten: what is missing, or of another type, is seen.
static ffi::Error Attributes(ffi::Dictionary all, VectorResult out) {
  float sum = all.size();
  if (auto flag = all.get<bool>("flag"); flag.has_value() && *flag) sum += 10;
  if (auto list = all.get<ffi::Span<const int64_t>>("list"); list.has_value())
    for (int64_t value : *list) sum += value;
  if (auto inner = all.get<ffi::Dictionary>("inner"); inner.has_value())
    if (auto part = inner->get<double>("part"); part.has_value()) sum += *part;
  if (auto text = all.get<std::string_view>("text"); text.has_value()) sum += 10000 * text->size();
  out->typed_data()[0] = sum;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes, ffi::Ffi::Bind().Attrs().Ret<Vector>());

// The bytes of each operand, in the order of memory.
static ffi::Error Bytes(ffi::RemainingArgs operands, ffi::RemainingRets results) {
  for (size_t n = 0; n < results.size(); ++n) {
    auto operand = operands.get<ffi::AnyBuffer>(n).value();
    std::memmove(results.get<ffi::AnyBuffer>(n).value()->untyped_data(), operand.untyped_data(), operand.size_bytes());
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(bytes, Bytes, ffi::Ffi::Bind().RemainingArgs().RemainingRets());

static ffi::Error IsSame(ffi::AnyBuffer operand, ffi::Result<ffi::AnyBuffer> result) {
  if (operand.untyped_data() == result->untyped_data()) return ffi::Error::Success();
  return ffi::Error::InvalidArgument("the operand and the result are different memory");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(is_same, IsSame, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// Returns before its work is done.
static ffi::Future Later(Vector x, VectorResult out) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([x, out, promise = std::move(promise)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (x.typed_data()[0] < 0) return promise.SetError(ffi::Error(XLA_FFI_Error_Code_INTERNAL, "too late"));
    for (size_t n = 0; n < x.element_count(); ++n) out->typed_data()[n] = 2 * x.typed_data()[n];
    promise.SetAvailable();
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later, ffi::Ffi::Bind().Arg<Vector>().Ret<Vector>());

static ffi::Error Services(ffi::ScratchAllocator scratch, ffi::ThreadPool pool, int32_t device, VectorResult out) {
  auto memory = scratch.Allocate(16 * sizeof(float), 64);
  if (!memory.has_value()) return ffi::Error::Internal("no scratch memory");
  float* values = static_cast<float*>(*memory);
  std::atomic<int> done{0};
  for (int n = 0; n < 4; ++n) pool.Schedule([&, n] { values[n] = n, ++done; });
  while (done < 4) std::this_thread::yield();
  out->typed_data()[0] = values[1] + values[2] + values[3] + 10 * pool.num_threads() + 100 * device;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    services, Services,
    ffi::Ffi::Bind().Ctx<ffi::ScratchAllocator>().Ctx<ffi::ThreadPool>().Ctx<ffi::DeviceOrdinal>().Ret<Vector>());

struct Counter {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  float count;
};
ffi::TypeId Counter::id = {};
ffi::TypeInfo Counter::info = ffi::MakeTypeInfo<Counter>();

static ffi::ErrorOr<std::unique_ptr<Counter>> Begin(float first) {
  return std::make_unique<Counter>(Counter{first});
}
static ffi::Error Count(Counter* counter, float, VectorResult out) {
  out->typed_data()[0] = counter->count++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(begin_counter, Begin, ffi::Ffi::BindInstantiate().Attr<float>("first"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count,
                              ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Attr<float>("first").Ret<Vector>());

extern "C" void* counter_id() { return &Counter::id; }
extern "C" void* counter_info() { return &Counter::info; }
extern "C" void old_interface(void* out, const void** in) { *(float*)out = *(const float*)in[0]; }
