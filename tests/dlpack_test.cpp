// DLPack: round trips, strides, who frees what and when, refusals.
#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <memory>

#include "gradient_check.h"
#include "strided.h"

namespace ca = calor;
using namespace calor::testing;
using ca::Shape;
using ca::Tensor;

namespace {

void release(DLManagedTensor* t) { t->deleter(t); }
std::unique_ptr<DLManagedTensor, void (*)(DLManagedTensor*)> exported(const Tensor& t) {
    return {ca::to_dlpack(t), release};
}

TEST(DLPack, RoundTripsEveryDtypeAndStride) {
    for (const ca::DType dtype : every_dtype) {
        for (const Tensor& x : under_other_strides(counting({2, 3, 4}, dtype))) {
            const auto before = ca::memory_statistics().allocations;
            const Tensor y = ca::from_dlpack(ca::to_dlpack(x));
            EXPECT_EQ(ca::memory_statistics().allocations, before);
            EXPECT_EQ(y.dtype(), dtype);
            EXPECT_EQ(strides_of(y), strides_of(x));
            EXPECT_EQ(values_of(y), values_of(x));
        }
    }
    EXPECT_EQ(ca::from_dlpack(ca::to_dlpack(ca::scalar(3, ca::i32))).item<int>(), 3);
    EXPECT_EQ(ca::from_dlpack(ca::to_dlpack(ca::zeros({0, 3}))).shape(), (Shape{0, 3}));
    const Tensor tail = ca::slice(ca::tensor({1.F, 2.F, 3.F}), 0, {.start = 1});
    EXPECT_EQ(exported(tail)->dl_tensor.byte_offset, 4U);
    EXPECT_EQ(ca::from_dlpack(ca::to_dlpack(tail)).to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(DLPack, ExportKeepsTheMemoryAlive) {
    const auto before = ca::memory_statistics().in_use;
    Tensor x = ca::tensor({1.F, 2.F, 3.F});
    auto out = exported(x);
    x = Tensor();
    EXPECT_GT(ca::memory_statistics().in_use, before);
    EXPECT_EQ(static_cast<float*>(out->dl_tensor.data)[1], 2.F);
    out.reset();
    EXPECT_EQ(ca::memory_statistics().in_use, before);
}

TEST(DLPack, ExportedMemoryIsNotReused) {
    Tensor x = ca::tensor({1.F, 2.F, 3.F}) + 0;
    const auto out = exported(x);
    x = x + 1;
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 3, 4}));
    EXPECT_EQ(static_cast<float*>(out->dl_tensor.data)[0], 1.F);
}

/// Memory of "another library" that counts how often it is freed.
struct Foreign {
    DLManagedTensor managed{};
    std::int64_t shape[2] = {2, 3}, strides[2] = {1, 2};
    alignas(16) float values[6] = {1, 2, 3, 4, 5, 6};
    int freed = 0;

    Foreign() {
        managed.dl_tensor.data = values;
        managed.dl_tensor.device = {kDLCPU, 0};
        managed.dl_tensor.ndim = 2;
        managed.dl_tensor.dtype = {kDLFloat, 32, 1};
        managed.dl_tensor.shape = shape;
        managed.dl_tensor.strides = strides;
        managed.manager_ctx = this;
        managed.deleter = [](DLManagedTensor* t) { ++static_cast<Foreign*>(t->manager_ctx)->freed; };
    }
};

TEST(DLPack, ImportCallsTheDeleterOnceAtTheEnd) {
    Foreign f;
    Tensor view;
    {
        const Tensor x = ca::from_dlpack(&f.managed);
        EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
        view = ca::select(x, 0, 1).eval();
    }
    EXPECT_EQ(f.freed, 0);
    EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{2, 4, 6}));
    view = Tensor();
    EXPECT_EQ(f.freed, 1);

    Foreign dense;
    dense.managed.dl_tensor.strides = nullptr;
    EXPECT_EQ(ca::from_dlpack(&dense.managed).to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(dense.freed, 1);
}

TEST(DLPack, ImportedMemoryIsNeverWritten) {
    Foreign f;
    f.managed.dl_tensor.strides = nullptr;
    Tensor x = ca::from_dlpack(&f.managed);
    for (int i = 0; i < 3; ++i) {
        x = x * 2;
        x.eval();
    }
    EXPECT_EQ(x.to_vector<float>()[5], 48.F);
    EXPECT_EQ(f.values[5], 6.F);
}

/// CUDA memory is shared like the CPU's; OpenCL's is not.
TEST(DLPack, OnEveryDevice) {
    for (const ca::DeviceInfo& info : ca::devices()) {
        const Tensor x = counting({2, 3, 4}, ca::f32).to(info.device), y = ca::permute(x, {2, 0, 1}).eval();
        if (info.device.kind == ca::DeviceKind::opencl) {
            expect_error("device/unsupported", [&] { (void)ca::to_dlpack(y); });
            continue;
        }
        const Tensor back = ca::from_dlpack(ca::to_dlpack(y));
        EXPECT_EQ(back.device(), info.device);
        EXPECT_EQ(strides_of(back), strides_of(y));
        EXPECT_EQ(values_of(back), values_of(y));
    }
}

TEST(DLPack, Refuses) {
    const auto refuse = [](const char* code, void (*spoil)(Foreign&)) {
        Foreign f;
        spoil(f);
        expect_error(code, [&] { (void)ca::from_dlpack(&f.managed); });
        EXPECT_EQ(f.freed, 0);
    };
    refuse("device/unavailable", [](Foreign& f) { f.managed.dl_tensor.device = {kDLOpenCL, 1}; });
    refuse("dtype/unsupported", [](Foreign& f) { f.managed.dl_tensor.dtype.lanes = 4; });
    refuse("dtype/unsupported", [](Foreign& f) { f.managed.dl_tensor.dtype.bits = 128; });
    refuse("dtype/unsupported", [](Foreign& f) { f.managed.dl_tensor.dtype.code = 5; });
    refuse("value/option", [](Foreign& f) { f.managed.dl_tensor.byte_offset = 2; });
    refuse("value/option", [](Foreign& f) { f.managed.dl_tensor.ndim = -1; });
    refuse("shape/negative", [](Foreign& f) { f.shape[1] = -3; });
    refuse("shape/overflow", [](Foreign& f) { f.shape[0] = f.shape[1] = std::int64_t{1} << 40; });
    expect_error("tensor/undefined", [] { (void)ca::from_dlpack(nullptr); });
    expect_error("tensor/undefined", [] { (void)ca::to_dlpack(Tensor()); });
}

}  // namespace
