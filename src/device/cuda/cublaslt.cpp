// Matrix products through cuBLASLt. Its matrices are column-major, so it computes the transposed product c' = b' a':
// our rows are its columns, and a bias along our columns is one along its rows, which its epilogue adds.
//
// f32 is exact f32 unless TF32 is allowed; f16 and bf16 sum in f32. Partial sums are kept in the compute type and added
// in a fixed order. The choice of an algorithm is remembered, so that a problem always runs the same one.
#include <fmt/format.h>

#include <bit>
#include <map>
#include <stdexcept>

#include "calor/precision.h"
#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_driver.h"
#include "device/gpu/gpu_backend.h"
#include "device/gpu/symbols.h"
#include "device/gpu/vendor.h"

namespace calor::cuda::lt {
namespace {

bool fill(Api& a) {
    void* lib = open_library({"libcublasLt.so.13", "libcublasLt.so.12"});
    if (!lib) return false;
    gpu::Symbols find(lib);
    find("cublasLtCreate", a.create);
    find("cublasLtGetVersion", a.version);
    find("cublasLtGetStatusString", a.status_string);
    find("cublasLtMatmulDescCreate", a.description_create);
    find("cublasLtMatmulDescSetAttribute", a.description_set);
    find("cublasLtMatmulDescDestroy", a.description_destroy);
    find("cublasLtMatrixLayoutCreate", a.layout_create);
    find("cublasLtMatrixLayoutSetAttribute", a.layout_set);
    find("cublasLtMatrixLayoutDestroy", a.layout_destroy);
    find("cublasLtMatmulPreferenceCreate", a.preference_create);
    find("cublasLtMatmulPreferenceSetAttribute", a.preference_set);
    find("cublasLtMatmulPreferenceDestroy", a.preference_destroy);
    find("cublasLtMatmulAlgoGetHeuristic", a.heuristic);
    find("cublasLtMatmul", a.matmul);
    return find.whole();
}

void check(Status status, const char* call) {
    if (status != 0) throw std::runtime_error(fmt::format("{}: {}", call, api()->status_string(status)));
}

/// A descriptor, layout or preference that is destroyed with this.
class Owned {
public:
    explicit Owned(Status (*destroy)(Object)) : destroy_(destroy) {}
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() {
        if (object) destroy_(object);
    }
    Object object = nullptr;

private:
    Status (*destroy_)(Object);
};

/// One operand as the library sees it: a column-major matrix, maybe transposed.
struct Matrix {
    std::uint64_t rows = 0, columns = 0;
    std::int64_t leading = 0, batch = 0;  ///< strides, in elements
    bool transposed = false;
};

struct Problem {
    DType dtype = f32;
    std::int64_t m = 0, n = 0, k = 0, batch = 1;
    Matrix a, b, c;  ///< ours: the library's second, first and result
    bool bias = false;
    const void *a_data = nullptr, *b_data = nullptr, *bias_data = nullptr;
    void* c_data = nullptr;
};

/// The matrix [rows, columns] (column-major) whose steps along rows and columns are given; false when none has them.
bool column_major(std::int64_t rows, std::int64_t columns, std::int64_t row_step, std::int64_t column_step,
                  Matrix& to) {
    const auto fits = [](std::int64_t fast, std::int64_t fast_step, std::int64_t slow, std::int64_t& slow_step) {
        if (fast != 1 && fast_step != 1) return false;
        if (slow == 1) slow_step = fast;
        return slow_step >= fast;
    };
    if (fits(rows, row_step, columns, column_step)) {
        to = {static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), column_step, 0, false};
        return true;
    }
    if (fits(columns, column_step, rows, row_step)) {
        to = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows), row_step, 0, true};
        return true;
    }
    return false;
}

/// Fills `p`; gives a reason when the library has no such layout.
const char* describe(const gpu::MatmulProblem& from, Problem& p) {
    const View &a = from.a, &b = from.b, &c = from.c;
    const std::int64_t rank = c.rank();
    p.dtype = c.dtype;
    p.m = c.size(rank - 2);
    p.n = c.size(rank - 1);
    p.k = a.size(rank - 1);
    if (c.count() == 0 || p.k == 0) return "an empty product";
    if (!c.contiguous()) return "a result that is not dense";
    // Batch axes are one, or become rows of a.
    std::int64_t a_step = 0, b_step = 0;
    for (std::int64_t axis = rank - 3; axis >= 0; --axis) {
        const std::int64_t size = c.size(axis);
        if (size == 1) continue;
        const std::int64_t sa = a.size(axis) == 1 ? 0 : a.stride(axis), sb = b.size(axis) == 1 ? 0 : b.stride(axis);
        if (p.batch == 1) {
            a_step = sa;
            b_step = sb;
        } else if (sa != a_step * p.batch || sb != b_step * p.batch) {
            return "batch axes that are not one axis in memory";
        }
        p.batch *= size;
    }
    const std::int64_t a_row = a.stride(rank - 2);
    if (p.batch > 1 && b_step == 0 && a_step == p.m * a_row) {
        p.m *= p.batch;
        p.batch = 1;
    }
    if (p.batch > INT32_MAX || a_step < 0 || b_step < 0) return "a batch that the library cannot count";
    if (!column_major(p.k, p.m, a.stride(rank - 1), p.m == 1 ? 1 : a_row, p.a)) return "strides of the left operand";
    if (!column_major(p.n, p.k, b.stride(rank - 1), b.stride(rank - 2), p.b)) return "strides of the right operand";
    p.c = {static_cast<std::uint64_t>(p.n), static_cast<std::uint64_t>(p.m), p.n, 0, false};
    p.a.batch = a_step;
    p.b.batch = b_step;
    p.c.batch = p.m * p.n;
    p.bias = from.bias != nullptr;
    if (p.bias && p.n > 1 && from.bias->stride(0) != 1) return "a bias with gaps";
    p.a_data = a.data;
    p.b_data = b.data;
    p.c_data = c.data;
    p.bias_data = p.bias ? from.bias->data : nullptr;
    return nullptr;
}

DataType data_type(DType dtype) {
    return dtype == f64 ? real_64 : dtype == f32 ? real_32 : dtype == f16 ? real_16 : real_b16;
}
ComputeType compute_type_of(DType dtype) {
    if (dtype == f64) return compute_64;
    return dtype == f32 && tf32() ? compute_32_fast_tf32 : compute_32;
}

/// Bytes to whose multiples an address is aligned, at most 16: more is never needed.
std::uint32_t alignment(const void* data) {
    const auto address = reinterpret_cast<std::uintptr_t>(data) | 16U;
    return 1U << static_cast<unsigned>(std::countr_zero(address));
}

/// The library's descriptions of a problem.
class Descriptions {
public:
    explicit Descriptions(const Problem& p) {
        const DataType type = data_type(p.dtype);
        check(api()->description_create(&product_.object, compute_type_of(p.dtype), p.dtype == f64 ? real_64 : real_32),
              "cublasLtMatmulDescCreate");
        set(transpose_a, p.b.transposed ? transpose : keep);
        set(transpose_b, p.a.transposed ? transpose : keep);
        if (p.bias) {
            set(epilogue, with_bias);
            set(bias_pointer, p.bias_data);
        }
        create(b_, p.b, type, p.batch);
        create(a_, p.a, type, p.batch);
        create(c_, p.c, type, p.batch);
    }
    Object product() const { return product_.object; }
    Object a() const { return a_.object; }
    Object b() const { return b_.object; }
    Object c() const { return c_.object; }

private:
    template <class T> void set(DescriptionAttribute attribute, const T& value) {
        check(api()->description_set(product_.object, attribute, &value, sizeof value),
              "cublasLtMatmulDescSetAttribute");
    }
    static void create(Owned& layout, const Matrix& m, DataType type, std::int64_t batch) {
        check(api()->layout_create(&layout.object, type, m.rows, m.columns, m.leading), "cublasLtMatrixLayoutCreate");
        if (batch == 1) return;
        const auto count = static_cast<std::int32_t>(batch);
        check(api()->layout_set(layout.object, batch_count, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute");
        check(api()->layout_set(layout.object, batch_offset, &m.batch, sizeof m.batch),
              "cublasLtMatrixLayoutSetAttribute");
    }
    Owned product_{api()->description_destroy};
    Owned a_{api()->layout_destroy}, b_{api()->layout_destroy}, c_{api()->layout_destroy};
};

/// The library's state for a device, and its choices by problem.
struct Library {
    Object handle = nullptr;
    std::map<std::string, Choice> choices;
};
Library& library_of(gpu::GpuBackend& device) {  // under the device's lock
    static auto& all = *new std::map<gpu::GpuBackend*, Library>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    Library& l = all[&device];
    if (!l.handle) {
        (void)stream_of(device.driver());  // makes its context current
        check(api()->create(&l.handle), "cublasLtCreate");
    }
    return l;
}

std::string key_of(const Problem& p) {
    const auto matrix = [](const Matrix& m) {
        return fmt::format("{},{},{},{},{};", m.rows, m.columns, m.leading, m.batch, m.transposed);
    };
    return fmt::format("{} {} {} {}{}{}{} {} {} {}", name_of(p.dtype), static_cast<int>(compute_type_of(p.dtype)),
                       p.batch, matrix(p.a), matrix(p.b), p.bias ? "bias" : "", matrix(p.c), alignment(p.a_data),
                       alignment(p.b_data), alignment(p.c_data));
}

constexpr std::uint64_t workspace_limit = std::uint64_t{64} << 20;

/// The library's first choice; its state says whether there is one.
const Choice& choose(Library& library, const Problem& p) {
    const std::string key = key_of(p);
    if (const auto it = library.choices.find(key); it != library.choices.end()) return it->second;
    const Descriptions d(p);
    Owned preference(api()->preference_destroy);
    check(api()->preference_create(&preference.object), "cublasLtMatmulPreferenceCreate");
    const auto set = [&](PreferenceAttribute attribute, const auto& value) {
        check(api()->preference_set(preference.object, attribute, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute");
    };
    set(most_workspace, workspace_limit);
    set(reduction_schemes, reduce_in_compute_type);
    set(alignment_a, alignment(p.b_data));
    set(alignment_b, alignment(p.a_data));
    set(alignment_c, alignment(p.c_data));
    set(alignment_d, alignment(p.c_data));
    Choice choice{};
    int found = 0;
    const Status status = api()->heuristic(library.handle, d.product(), d.b(), d.a(), d.c(), d.c(), preference.object,
                                           1, &choice, &found);
    if (status != 0 || found == 0) choice.state = status != 0 ? status : 15;  // not supported
    return library.choices.emplace(key, choice).first->second;
}

}  // namespace

const Api* api() {
    static Api functions{};
    static const bool there = fill(functions);
    return there ? &functions : nullptr;
}

}  // namespace calor::cuda::lt

namespace calor::gpu {

using namespace cuda::lt;  // NOLINT: this file implements them

const char* vendor_matmul_why_not(Backend& backend, const MatmulProblem& problem) {
    GpuBackend& device = *backend.gpu();
    if (device.traits().kind != DeviceKind::cuda) return "no library on OpenCL devices";
    if (!is_floating(problem.c.dtype)) return "dtypes other than f64, f32, f16 and bf16";
    if (!api()) return "libcublasLt was not found";
    Problem p;
    if (const char* reason = describe(problem, p)) return reason;
    const std::lock_guard lock(device.lock());
    return choose(library_of(device), p).state == 0 ? nullptr : "the library has no algorithm for it";
}

void vendor_matmul(Backend& backend, const MatmulProblem& problem, std::string_view operation, const Where& where) {
    GpuBackend& device = *backend.gpu();
    Problem p;
    if (const char* reason = describe(problem, p)) throw std::runtime_error(reason);
    const std::lock_guard lock(device.lock());
    Library& library = library_of(device);
    const Choice& choice = choose(library, p);
    const Descriptions d(p);
    const Ref<Storage> workspace =
        backend.allocate(std::max<std::int64_t>(1, static_cast<std::int64_t>(choice.workspace)), operation, where);
    const double one_64 = 1, zero_64 = 0;
    const float one_32 = 1, zero_32 = 0;
    const bool wide = p.dtype == f64;
    check(
        api()->matmul(library.handle, d.product(), wide ? static_cast<const void*>(&one_64) : &one_32, p.b_data, d.b(),
                      p.a_data, d.a(), wide ? static_cast<const void*>(&zero_64) : &zero_32, p.c_data, d.c(), p.c_data,
                      d.c(), &choice.algorithm, workspace->data, choice.workspace, cuda::stream_of(device.driver())),
        "cublasLtMatmul");
}

}  // namespace calor::gpu
