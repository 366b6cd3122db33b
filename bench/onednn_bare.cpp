// The ceiling of the CPU contractions, and calor below it: oneDNN called bare, each implementation it offers for a
// problem, in the formats it likes best ("any"), in plain (N, C, spatial) and in channels-last activations. The last
// figure of calor's lines compares with the fastest bare call for the same tensors: the reorders between the caller's
// formats (plain or channels-last activations, plain weights) and the call's are timed apart and added.  Usage:
// onednn_bare [conv|matmul|all] [name part] [role]
#include <omp.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "calor_contractions.h"

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Args = std::unordered_map<int, memory>;

struct ConvProblem {
    const char* name;
    memory::dims x, w, stride, pad, dilation;  // w is [O, C/g, K...]; dilation 1 is dense
    memory::dim groups = 1;
};

const std::vector<ConvProblem> conv_problems = {
    {"mnist first b64 k3", {64, 1, 28, 28}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"mnist first b128 k3", {128, 1, 28, 28}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"mnist first b64 k5", {64, 1, 28, 28}, {32, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}},
    {"mnist second b64 k3", {64, 32, 14, 14}, {64, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"mnist second b128 k3", {128, 32, 14, 14}, {64, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"resnet 64x56x56 b8 k3", {8, 64, 56, 56}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"resnet strided k3", {8, 64, 56, 56}, {128, 64, 3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"rgb k7 s2", {4, 3, 224, 224}, {64, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}},
    {"pointwise 256->64", {8, 256, 28, 28}, {64, 256, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {"depthwise k3", {8, 64, 56, 56}, {64, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 64},
    {"grouped 4 k3", {8, 64, 56, 56}, {64, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 4},
    {"odd channels 30->50 k3", {8, 30, 28, 28}, {50, 30, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {"volume k3", {1, 32, 16, 56, 56}, {32, 32, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {"volume dilated k3", {1, 32, 16, 56, 56}, {32, 32, 3, 3, 3}, {1, 1, 1}, {2, 2, 2}, {2, 2, 2}},
    {"signal k9", {16, 64, 4096}, {64, 64, 9}, {1}, {4}, {1}},
};

struct MatmulProblem {
    const char* name;
    memory::dims a, b;
    bool a_transposed = false, b_transposed = false;
};

const std::vector<MatmulProblem> matmul_problems = {
    {"1024^3", {1024, 1024}, {1024, 1024}},
    {"1024^3 A'", {1024, 1024}, {1024, 1024}, true, false},
    {"1024^3 B'", {1024, 1024}, {1024, 1024}, false, true},
    {"64x3136x128", {64, 3136}, {3136, 128}},
    {"64x3136x128 B'", {64, 3136}, {3136, 128}, false, true},
    {"3136x64x128 A'", {3136, 64}, {64, 128}, true, false},
    {"64x128x3136", {64, 128}, {128, 3136}},
    {"64x128x10", {64, 128}, {128, 10}},
    {"64x128x10 B'", {64, 128}, {128, 10}, false, true},
    {"batched 4x512^3", {4, 512, 512}, {4, 512, 512}},
    {"batched 64x64^3", {64, 64, 64}, {64, 64, 64}},
    {"broadcast 4x512^3", {4, 512, 512}, {1, 512, 512}},
};

dnnl::engine engine(dnnl::engine::kind::cpu, 0);
dnnl::stream stream(engine);

memory filled(const memory::desc& desc) {
    memory m(desc, engine);
    std::vector<char> bytes(desc.get_size());
    auto* values = static_cast<float*>(m.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size() / 4; ++i) values[i] = static_cast<float>(i * 37 % 17) / 16 - 0.5F;
    return m;
}

/// Wall-clock time; with one thread the processor time of that thread, which other programs disturb less.
double now() {
    timespec t{};
    clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

template <class F> double seconds(F&& run) {
    run();
    double best = 1e9, spent = 0;
    for (int i = 0; i < 100 && (spent < 0.15 || i < 5); ++i) {
        const double start = now();
        run();
        const double took = now() - start;
        best = std::min(best, took);
        spent += took;
    }
    return best;
}

double reorder_seconds(const memory::desc& from, const memory::desc& to) {
    if (from == to) return 0;
    memory a = filled(from), b(to, engine);
    dnnl::reorder reorder(a, b);
    return seconds([&] { reorder.execute(stream, a, b), stream.wait(); });
}

memory::desc any(const memory::dims& dims) { return {dims, memory::data_type::f32, Tag::any}; }
memory::desc plain(const memory::dims& dims) {
    static constexpr Tag tags[] = {Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
    return {dims, memory::data_type::f32, tags[dims.size() - 1]};
}
memory::desc last(const memory::dims& dims) {
    static constexpr Tag tags[] = {Tag::acb, Tag::acdb, Tag::acdeb};
    return {dims, memory::data_type::f32, tags[dims.size() - 3]};
}

/// A bare call and what its reorders cost a caller whose activations are plain and one whose are channels-last.
struct Call {
    std::function<void()> run;
    double reorders[2] = {0, 0};
};

/// The fastest bare call of the problem and role at hand, and the time of the reorders that belong to it.
struct Best {
    double took = 1e9, moved = 0;
    std::function<void()> run;
    double total() const { return took + moved; }
    void offer(double seconds, double reorders, const std::function<void()>& call) {
        if (seconds + reorders < total()) *this = {seconds, reorders, call};
    }
    void again() { took = std::min(took, seconds(run)); }
};
struct Ceilings {
    Best free;           ///< whatever formats the call likes
    Best with_these[2];  ///< with reorders from and to plain activations, channels-last activations
    void offer(double seconds, const Call& call) {
        free.offer(seconds, 0, call.run);
        for (int i = 0; i < 2; ++i) with_these[i].offer(seconds, call.reorders[i], call.run);
    }
};
Ceilings best;

void print_calor(bool channels_last, double flops, const std::function<void()>& run) {
    Best& with_these = best.with_these[channels_last ? 1 : 0];
    double took = seconds(run);
    for (int round = 0; round < 8; ++round) {  // in turn, so that other programs disturb all of them alike
        best.free.again();
        with_these.again();
        took = std::min(took, seconds(run));
    }
    std::printf("    %-14s %-28s %9.3f ms %7.1f GFLOP/s   = %3.0f %% of bare, %3.0f %% of bare with these tensors\n",
                channels_last ? "last" : "plain", "calor", took * 1e3, flops / took / 1e9,
                100 * best.free.total() / took, 100 * with_these.total() / took);
    std::fflush(stdout);
}

/// Times every implementation of a primitive descriptor that is not the reference; prints one line each.
template <class Primitive, class Pd, class Run>
void all_implementations(const char* formats, Pd pd, double flops, int limit, Run&& run) {
    for (int count = 0; count < limit; ++count) {
        const std::string name = pd.impl_info_str();
        if (name.find("ref") == 0) break;
        const Call call = run(Primitive(pd), pd);
        const double took = seconds(call.run);
        std::printf("    %-14s %-28s %9.3f ms %7.1f GFLOP/s", formats, name.c_str(), took * 1e3, flops / took / 1e9);
        best.offer(took, call);
        if (call.reorders[0] + call.reorders[1] > 0) {
            std::printf("   + reorders %7.3f ms from plain, %7.3f ms from channels-last", call.reorders[0] * 1e3,
                        call.reorders[1] * 1e3);
        }
        std::printf("\n");
        std::fflush(stdout);
        if (!pd.next_impl()) break;
    }
}

struct Formats {
    const char* name;
    memory::desc x, w, y;
};

void bench_conv(const ConvProblem& p, const std::string& role_filter) {
    const auto spatial = p.x.size() - 2;
    memory::dims y{p.x[0], p.w[0]}, w = p.w, dilation;
    double flops = 2.0 * static_cast<double>(p.x[0] * p.w[0] * p.w[1]);
    for (std::size_t i = 0; i < spatial; ++i) {
        y.push_back((p.x[i + 2] + 2 * p.pad[i] - p.dilation[i] * (p.w[i + 2] - 1) - 1) / p.stride[i] + 1);
        flops *= static_cast<double>(y[i + 2] * p.w[i + 2]);
        dilation.push_back(p.dilation[i] - 1);
    }
    if (p.groups > 1) {
        w.insert(w.begin(), p.groups);
        w[1] /= p.groups;
    }
    std::printf("%s   (%.3f GFLOP)\n", p.name, flops / 1e9);
    const std::vector<Formats> formats = {{"any", any(p.x), any(w), any(y)},
                                          {"plain", plain(p.x), any(w), plain(y)},
                                          {"last", last(p.x), any(w), last(y)},
                                          {"last, plain w", last(p.x), plain(w), last(y)},
                                          {"plain x, any y", plain(p.x), any(w), any(y)},
                                          {"plain x, last y", plain(p.x), any(w), last(y)}};
    using Prop = dnnl::prop_kind;
    using Alg = dnnl::algorithm;
    for (const std::string role : {"forward", "input_grad", "weight_grad"}) {
        if (!role_filter.empty() && role.find(role_filter) == std::string::npos) continue;
        std::printf("  %s\n", role.c_str());
        best = {};
        for (const Formats& f : formats) {
            const auto run = [&](const dnnl::primitive& primitive, const auto& pd) -> Call {
                memory x = filled(role == "input_grad" ? pd.diff_src_desc() : pd.src_desc());
                memory wm = filled(role == "weight_grad" ? pd.diff_weights_desc() : pd.weights_desc());
                memory ym = filled(role == "forward" ? pd.dst_desc() : pd.diff_dst_desc());
                const bool in = role == "forward", dw = role == "weight_grad";
                Args args{{in || dw ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, x},
                          {dw ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, wm},
                          {in ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, ym}};
                Call call{[primitive, args] { primitive.execute(stream, args), stream.wait(); }};
                const double of_weights =
                    dw ? reorder_seconds(wm.get_desc(), plain(w)) : reorder_seconds(plain(w), wm.get_desc());
                for (const bool channels_last : {false, true}) {
                    const auto outer = [&](const memory::dims& d) { return channels_last ? last(d) : plain(d); };
                    call.reorders[channels_last ? 1 : 0] =
                        of_weights +
                        (in || dw ? reorder_seconds(outer(p.x), x.get_desc())
                                  : reorder_seconds(x.get_desc(), outer(p.x))) +
                        (in ? reorder_seconds(ym.get_desc(), outer(y)) : reorder_seconds(outer(y), ym.get_desc()));
                }
                return call;
            };
            try {
                dnnl::convolution_forward::desc fd(Prop::forward_training, Alg::convolution_direct, f.x, f.w, f.y,
                                                   p.stride, dilation, p.pad, p.pad);
                dnnl::convolution_forward::primitive_desc fpd(
                    dnnl::convolution_forward::desc(Prop::forward_training, Alg::convolution_direct, any(p.x), any(w),
                                                    any(y), p.stride, dilation, p.pad, p.pad),
                    engine);
                if (role == "forward") {
                    all_implementations<dnnl::convolution_forward>(
                        f.name, dnnl::convolution_forward::primitive_desc(fd, engine), flops, 3, run);
                } else if (role == "input_grad") {
                    dnnl::convolution_backward_data::desc d(Alg::convolution_direct, f.x, f.w, f.y, p.stride, dilation,
                                                            p.pad, p.pad);
                    all_implementations<dnnl::convolution_backward_data>(
                        f.name, dnnl::convolution_backward_data::primitive_desc(d, engine, fpd), flops, 3, run);
                } else {
                    dnnl::convolution_backward_weights::desc d(Alg::convolution_direct, f.x, f.w, f.y, p.stride,
                                                               dilation, p.pad, p.pad);
                    all_implementations<dnnl::convolution_backward_weights>(
                        f.name, dnnl::convolution_backward_weights::primitive_desc(d, engine, fpd), flops, 3, run);
                }
            } catch (const dnnl::error& e) {
                std::printf("    %-14s refused: %s\n", f.name, e.message);
            }
        }
        for (const bool channels_last : {false, true}) {
            print_calor(channels_last, flops,
                        bench::calor_conv(p.x, p.w, y, p.stride, p.pad, p.dilation, p.groups, role, channels_last));
        }
    }
}

void bench_matmul(const MatmulProblem& p) {
    memory::dims c = p.a;
    c.back() = p.b.back();
    double flops = 2.0 * static_cast<double>(p.a.back());
    for (const auto d : c) flops *= static_cast<double>(d);
    std::printf("matmul %s\n", p.name);
    best = {};
    const auto stored = [](const memory::dims& dims, bool transposed) {
        if (!transposed) return plain(dims);
        return memory::desc(dims, memory::data_type::f32, dims.size() == 2 ? Tag::ba : Tag::acb);
    };
    for (const bool free : {true, false}) {
        dnnl::matmul::desc d(free ? any(p.a) : stored(p.a, p.a_transposed),
                             free ? any(p.b) : stored(p.b, p.b_transposed), free ? any(c) : plain(c));
        all_implementations<dnnl::matmul>(
            free ? "any" : "plain", dnnl::matmul::primitive_desc(d, engine), flops, 2,
            [&](const dnnl::primitive& primitive, const auto& pd) -> Call {
                memory am = filled(pd.src_desc()), bm = filled(pd.weights_desc()), cm = filled(pd.dst_desc());
                Args args{{DNNL_ARG_SRC, am}, {DNNL_ARG_WEIGHTS, bm}, {DNNL_ARG_DST, cm}};
                return {[primitive, args] { primitive.execute(stream, args), stream.wait(); }};
            });
    }
    if (p.a.size() == 2) {
        memory am = filled(stored(p.a, p.a_transposed)), bm = filled(stored(p.b, p.b_transposed)),
               cm = filled(plain(c));
        const auto m = p.a[0], k = p.a[1], n = p.b[1];
        const std::function<void()> call = [=] {
            dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', m, n, k, 1.0F,
                       static_cast<float*>(am.get_data_handle()), p.a_transposed ? m : k,
                       static_cast<float*>(bm.get_data_handle()), p.b_transposed ? k : n, 0.0F,
                       static_cast<float*>(cm.get_data_handle()), n);
        };
        const double took = seconds(call);
        std::printf("    %-14s %-28s %9.3f ms %7.1f GFLOP/s\n", "sgemm", "dnnl_sgemm", took * 1e3, flops / took / 1e9);
        best.offer(took, {call});
    }
    print_calor(false, flops, bench::calor_matmul(p.a, p.b, p.a_transposed, p.b_transposed));
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "all", part = argc > 2 ? argv[2] : "", role = argc > 3 ? argv[3] : "";
    const auto wanted = [&](const char* name) {
        return part.empty() || std::string(name).find(part) != std::string::npos;
    };
    if (what != "matmul")
        for (const auto& p : conv_problems)
            if (wanted(p.name)) bench_conv(p, role);
    if (what != "conv")
        for (const auto& p : matmul_problems)
            if (wanted(p.name)) bench_matmul(p);
}
