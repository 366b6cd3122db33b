// Convolutions of two and three spatial axes through cuDNN. One axis becomes two, of which the first has size 1.
//
// Only algorithms run that the library reports as deterministic and that sum products as they are: those that transform
// the data (Winograd's, Fourier's) have other rounding errors and are left out. f32 multiplies exact f32 unless TF32 is
// allowed; f16 and bf16 multiply on tensor cores and sum in f32. The choice of an algorithm is the library's first one
// by its own heuristics, which do not measure, so that it is the same in every run.
#include <fmt/format.h>

#include <map>
#include <stdexcept>

#include "calor/precision.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda/cudnn_api.h"
#include "device/gpu/gpu_backend.h"
#include "device/gpu/symbols.h"
#include "device/gpu/vendor.h"

namespace calor::cuda::dnn {
namespace {

bool fill(Api& a) {
    void* lib = open_library({"libcudnn.so.9"});
    if (!lib) return false;
    gpu::Symbols find(lib);
    find("cudnnGetVersion", a.version);
    find("cudnnGetErrorString", a.status_string);
    find("cudnnCreate", a.create);
    find("cudnnSetStream", a.set_stream);
    find("cudnnCreateTensorDescriptor", a.tensor_create);
    find("cudnnSetTensorNdDescriptor", a.tensor_set);
    find("cudnnDestroyTensorDescriptor", a.tensor_destroy);
    find("cudnnCreateFilterDescriptor", a.filter_create);
    find("cudnnSetFilterNdDescriptor", a.filter_set);
    find("cudnnDestroyFilterDescriptor", a.filter_destroy);
    find("cudnnCreateConvolutionDescriptor", a.conv_create);
    find("cudnnSetConvolutionNdDescriptor", a.conv_set);
    find("cudnnSetConvolutionGroupCount", a.conv_groups);
    find("cudnnSetConvolutionMathType", a.conv_math);
    find("cudnnDestroyConvolutionDescriptor", a.conv_destroy);
    find("cudnnCreateActivationDescriptor", a.activation_create);
    find("cudnnSetActivationDescriptor", a.activation_set);
    find("cudnnDestroyActivationDescriptor", a.activation_destroy);
    find("cudnnGetConvolutionForwardAlgorithm_v7", a.forward_ask);
    find("cudnnGetConvolutionBackwardDataAlgorithm_v7", a.data_ask);
    find("cudnnGetConvolutionBackwardFilterAlgorithm_v7", a.filter_ask);
    find("cudnnConvolutionForward", a.forward);
    find("cudnnConvolutionBackwardData", a.backward_data);
    find("cudnnConvolutionBackwardFilter", a.backward_filter);
    find("cudnnConvolutionBiasActivationForward", a.forward_bias);
    find("cudnnAddTensor", a.add);
    return find.whole();
}

void check(Status status, const char* call) {
    if (status != 0) throw std::runtime_error(fmt::format("{}: {}", call, api()->status_string(status)));
}

using gpu::ConvProblem;
using gpu::ConvRole;

/// A descriptor that is destroyed with this.
class Owned {
public:
    Owned(Status (*create)(Object*), Status (*destroy)(Object)) : destroy_(destroy) {
        check(create(&object), "cudnnCreate...Descriptor");
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    ~Owned() { destroy_(object); }
    Object object = nullptr;

private:
    Status (*destroy_)(Object);
};

DataType data_type(DType dtype) {
    return dtype == f64 ? real_64 : dtype == f32 ? real_32 : dtype == f16 ? real_16 : real_b16;
}

/// A list of the library: int, with a unit axis put in where there is one spatial axis.
std::vector<int> lifted(const Dims& dims, std::int64_t leading, int unit) {
    std::vector<int> list;
    for (std::int64_t i = 0; i < dims.rank(); ++i) {
        if (i == leading && dims.rank() == leading + 1) list.push_back(unit);
        list.push_back(static_cast<int>(dims[i]));
    }
    return list;
}

/// Dense strides, plain or channels-last.
std::vector<int> dense_strides(const std::vector<int>& sizes, bool channels_last) {
    std::vector<int> strides(sizes.size());
    int step = channels_last ? sizes[1] : 1;
    for (std::size_t a = sizes.size() - 1; a >= 2; --a) {
        strides[a] = step;
        step *= sizes[a];
    }
    strides[1] = channels_last ? 1 : step;
    strides[0] = channels_last ? step : step * sizes[1];
    return strides;
}

bool exact(DType dtype) { return dtype == f32 && !tf32(); }

/// The library's descriptions of a problem.
class Descriptions {
public:
    explicit Descriptions(const ConvProblem& p) {
        const DataType type = data_type(p.x.dtype), sum = p.x.dtype == f64 ? real_64 : real_32;
        tensor(x_, p.x, type, p.channels_last);
        tensor(y_, p.y, type, p.channels_last);
        const std::vector<int> w = lifted(*p.w.shape, 2, 1);
        check(api()->filter_set(w_.object, type, p.channels_last ? channels_last : plain, static_cast<int>(w.size()),
                                w.data()),
              "cudnnSetFilterNdDescriptor");
        const std::vector<int> pad = lifted(p.settings->pad_low, 0, 0), stride = lifted(p.settings->stride, 0, 1),
                               dilation = lifted(p.settings->dilation, 0, 1);
        check(api()->conv_set(conv_.object, static_cast<int>(pad.size()), pad.data(), stride.data(), dilation.data(),
                              cross_correlation, sum),
              "cudnnSetConvolutionNdDescriptor");
        check(api()->conv_groups(conv_.object, static_cast<int>(p.settings->groups)), "cudnnSetConvolutionGroupCount");
        math(exact(p.x.dtype) ? fma_math : p.x.dtype == f64 ? default_math : tensor_math);
    }
    void math(int type) { check(api()->conv_math(conv_.object, type), "cudnnSetConvolutionMathType"); }
    Object x() const { return x_.object; }
    Object y() const { return y_.object; }
    Object w() const { return w_.object; }
    Object conv() const { return conv_.object; }

private:
    static void tensor(const Owned& to, const View& view, DataType type, bool channels_last) {
        const std::vector<int> sizes = lifted(*view.shape, 2, 1), strides = dense_strides(sizes, channels_last);
        check(api()->tensor_set(to.object, type, static_cast<int>(sizes.size()), sizes.data(), strides.data()),
              "cudnnSetTensorNdDescriptor");
    }
    Owned x_{api()->tensor_create, api()->tensor_destroy}, y_{api()->tensor_create, api()->tensor_destroy};
    Owned w_{api()->filter_create, api()->filter_destroy}, conv_{api()->conv_create, api()->conv_destroy};
};

/// An algorithm for a problem.
struct Choice {
    bool there = false;
    int algorithm = 0, math = 0;
    std::size_t workspace = 0;
};

struct Library {
    Object handle = nullptr;
    std::map<std::string, Choice> choices;
};
Library& library_of(gpu::GpuBackend& device) {  // under the device's lock
    static auto& all = *new std::map<gpu::GpuBackend*, Library>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    Library& l = all[&device];
    void* const stream = stream_of(device.driver());  // makes its context current
    if (!l.handle) {
        check(api()->create(&l.handle), "cudnnCreate");
        check(api()->set_stream(l.handle, stream), "cudnnSetStream");
    }
    return l;
}

std::string key_of(const ConvProblem& p) {
    const cpu::ConvSettings& s = *p.settings;
    return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(p.role), name_of(p.x.dtype),
                       exact(p.x.dtype), p.channels_last, to_string(*p.x.shape), to_string(*p.w.shape),
                       to_string(*p.y.shape), to_string(s.stride), to_string(s.dilation), to_string(s.pad_low),
                       s.groups, p.bias != nullptr);
}

/// Algorithms that sum the products themselves: implicit, precomputed and explicit products of matrices and the direct
/// one; of the gradients, number 1.
bool sums_products(ConvRole role, int algorithm) {
    return role == ConvRole::forward ? algorithm >= 0 && algorithm <= 3 : algorithm == 1;
}

constexpr std::size_t workspace_limit = std::size_t{1} << 30;

Choice ask(Library& library, const ConvProblem& p) {
    const Descriptions d(p);
    constexpr int most = 16;
    Candidate candidates[most] = {};
    int found = 0;
    Status status = 0;
    switch (p.role) {
        case ConvRole::forward:
            status = api()->forward_ask(library.handle, d.x(), d.w(), d.conv(), d.y(), most, &found, candidates);
            break;
        case ConvRole::input_grad:
            status = api()->data_ask(library.handle, d.w(), d.y(), d.conv(), d.x(), most, &found, candidates);
            break;
        case ConvRole::weight_grad:
            status = api()->filter_ask(library.handle, d.x(), d.y(), d.conv(), d.w(), most, &found, candidates);
            break;
    }
    if (status != 0) return {};
    for (int i = 0; i < found; ++i) {
        const Candidate& c = candidates[i];
        const bool fits = c.status == 0 && c.determinism == deterministic && c.memory <= workspace_limit;
        if (!fits || !sums_products(p.role, c.algorithm)) continue;
        if (exact(p.x.dtype) && c.math != fma_math) continue;
        return {true, c.algorithm, c.math, c.memory};
    }
    return {};
}

const Choice& choose(Library& library, const ConvProblem& p) {
    const std::string key = key_of(p);
    const auto it = library.choices.find(key);
    return it != library.choices.end() ? it->second : library.choices.emplace(key, ask(library, p)).first->second;
}

/// Tensor descriptor of a bias: its channels along axis 1.
void describe_bias(const Owned& to, const View& bias, std::int64_t rank) {
    std::vector<int> sizes(static_cast<std::size_t>(std::max<std::int64_t>(rank, 4)), 1);
    sizes[1] = static_cast<int>(bias.size(0));
    const std::vector<int> strides = dense_strides(sizes, false);
    check(api()->tensor_set(to.object, data_type(bias.dtype), static_cast<int>(sizes.size()), sizes.data(),
                            strides.data()),
          "cudnnSetTensorNdDescriptor");
}

/// One call of the library; alpha and beta are f64 for f64, else f32.
class Runner {
public:
    Runner(Library& library, const ConvProblem& problem, const Choice& choice, void* workspace)
        : handle_(library.handle), p_(problem), choice_(choice), workspace_(workspace), d_(problem) {
        d_.math(choice.math);
    }

    void run() {
        const Api& a = *api();
        if (p_.role == ConvRole::forward && p_.bias && choice_.algorithm == precomputed_gemm && forward_with_bias()) {
            return;
        }
        switch (p_.role) {
            case ConvRole::forward:
                check(a.forward(handle_, one(), d_.x(), p_.x.data, d_.w(), p_.w.data, d_.conv(), choice_.algorithm,
                                workspace_, choice_.workspace, zero(), d_.y(), p_.y.data),
                      "cudnnConvolutionForward");
                return add_bias(d_.y(), p_.y);
            case ConvRole::input_grad:
                check(a.backward_data(handle_, one(), d_.w(), p_.w.data, d_.y(), p_.y.data, d_.conv(),
                                      choice_.algorithm, workspace_, choice_.workspace, zero(), d_.x(), p_.x.data),
                      "cudnnConvolutionBackwardData");
                return add_bias(d_.x(), p_.x);
            case ConvRole::weight_grad:
                check(a.backward_filter(handle_, one(), d_.x(), p_.x.data, d_.y(), p_.y.data, d_.conv(),
                                        choice_.algorithm, workspace_, choice_.workspace, zero(), d_.w(), p_.w.data),
                      "cudnnConvolutionBackwardFilter");
        }
    }

private:
    const void* one() const { return wide() ? static_cast<const void*>(&one_64_) : &one_32_; }
    const void* zero() const { return wide() ? static_cast<const void*>(&zero_64_) : &zero_32_; }
    bool wide() const { return p_.x.dtype == f64; }

    /// The bias in the epilogue. False when the library does not do that here.
    bool forward_with_bias() {
        const Api& a = *api();
        Owned bias(a.tensor_create, a.tensor_destroy), activation(a.activation_create, a.activation_destroy);
        describe_bias(bias, *p_.bias, p_.y.rank());
        constexpr int pass_nan = 1;
        check(a.activation_set(activation.object, identity, pass_nan, 0.0), "cudnnSetActivationDescriptor");
        return a.forward_bias(handle_, one(), d_.x(), p_.x.data, d_.w(), p_.w.data, d_.conv(), choice_.algorithm,
                              workspace_, choice_.workspace, zero(), d_.y(), p_.y.data, bias.object, p_.bias->data,
                              activation.object, d_.y(), p_.y.data) == 0;
    }
    void add_bias(Object type, const View& result) {
        if (!p_.bias) return;
        Owned bias(api()->tensor_create, api()->tensor_destroy);
        describe_bias(bias, *p_.bias, result.rank());
        check(api()->add(handle_, one(), bias.object, p_.bias->data, one(), type, result.data), "cudnnAddTensor");
    }

    Object handle_;
    const ConvProblem& p_;
    const Choice& choice_;
    void* workspace_;
    Descriptions d_;
    double one_64_ = 1, zero_64_ = 0;
    float one_32_ = 1, zero_32_ = 0;
};

const char* settings_why_not(const ConvProblem& p) {
    const std::int64_t axes = p.settings->stride.rank();
    if (axes > 3) return "more than 3 spatial axes";
    for (const View* v : {&p.x, &p.w, &p.y}) {
        if (v->count() == 0) return "an empty operand";
        if (v->count() > INT32_MAX) return "more than 2^31 elements";
    }
    for (std::int64_t a = 0; a < axes; ++a) {
        const cpu::ConvSettings& s = *p.settings;
        const std::int64_t extent = s.dilation[a] * (p.w.size(a + 2) - 1) + 1;
        if (s.pad_low[a] < 0 || s.pad_low[a] > 1 << 20 || s.stride[a] > 1 << 20 || extent > 1 << 20) {
            return "steps or paddings past 2^20";
        }
        // The library pads both sides alike; what counts is that it comes to the same number of positions.
        if ((p.x.size(a + 2) + 2 * s.pad_low[a] - extent) / s.stride[a] + 1 != p.y.size(a + 2)) {
            return "another padding on each side";
        }
    }
    if (p.bias && p.bias->size(0) > 1 && p.bias->stride(0) != 1) return "a bias with gaps";
    // The library offers algorithms that then refuse (f16), or take a hundred times as long as plain ones.
    if (p.role != ConvRole::weight_grad && p.channels_last && p.settings->groups > 1 && p.w.size(1) == 1)
        return "one channel a group, channels last";
    return nullptr;
}

}  // namespace

const Api* api() {
    static Api functions{};
    static const bool there = fill(functions);
    return there ? &functions : nullptr;
}

}  // namespace calor::cuda::dnn

namespace calor::gpu {

namespace dnn = cuda::dnn;

const char* vendor_conv_why_not(Backend& backend, const ConvProblem& problem) {
    GpuBackend& device = *backend.gpu();
    if (device.traits().kind != DeviceKind::cuda) return "no library on OpenCL devices";
    if (!is_floating(problem.x.dtype)) return "dtypes other than f64, f32, f16 and bf16";
    if (!dnn::api()) return "libcudnn 9 was not found";
    if (const char* reason = dnn::settings_why_not(problem)) return reason;
    const std::lock_guard lock(device.lock());
    return dnn::choose(dnn::library_of(device), problem).there ? nullptr
                                                               : "the library has no exact, deterministic algorithm";
}

void vendor_conv(Backend& backend, const ConvProblem& problem, std::string_view operation, const Where& where) {
    GpuBackend& device = *backend.gpu();
    const std::lock_guard lock(device.lock());
    dnn::Library& library = dnn::library_of(device);
    const dnn::Choice& choice = dnn::choose(library, problem);
    const Ref<Storage> workspace =
        backend.allocate(std::max<std::int64_t>(1, static_cast<std::int64_t>(choice.workspace)), operation, where);
    dnn::Runner(library, problem, choice, workspace->data).run();
}

}  // namespace calor::gpu
