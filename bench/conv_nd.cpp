// Convolution beyond three axes beside a 3-D one of equal work, and transposed convolution: the best time and
// GFLOP/s of every role, in f32 and bf16. A line: name, dtype, role, ms, GFLOP/s, implementation. Usage: conv_nd [part
// of a name]. Its peer is conv_nd_torch.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "calor/calor.h"

namespace ca = calor;

namespace {

struct Case {
    const char* name;
    ca::Shape x, w;
    ca::PerAxis stride = {}, padding = {};
    bool transposed = false;
};

const std::vector<Case> cases = {
    {"3-D of equal work", {1, 8, 24, 24, 24}, {24, 8, 3, 3, 3}, 1, 1},
    {"3-D of equal work, 8 channels", {1, 8, 35, 35, 34}, {8, 8, 3, 3, 3}, 1, 1},
    {"4-D", {1, 8, 8, 12, 12, 12}, {8, 8, 3, 3, 3, 3}, 1, 1},
    {"5-D", {1, 8, 6, 6, 6, 8, 8}, {8, 8, 3, 3, 3, 3, 3}, 1, 1},
    {"6-D", {1, 8, 4, 4, 4, 4, 4, 4}, {8, 8, 3, 3, 3, 3, 3, 3}, 1, 1},
    {"4-D wide", {1, 32, 8, 12, 12, 12}, {32, 32, 3, 3, 3, 3}, 1, 1},
    {"4-D strided", {2, 8, 8, 16, 16, 16}, {16, 8, 3, 3, 3, 3}, 2, 1},
    {"transposed k4 s2", {4, 64, 28, 28}, {64, 32, 4, 4}, 2, 1, true},
    {"transposed k2 s2", {1, 64, 10, 20, 20}, {64, 64, 2, 2, 2}, 2, {}, true},
    {"transposed k2 s2 large", {1, 256, 20, 20, 20}, {256, 128, 2, 2, 2}, 2, {}, true},
    {"transposed k8 s8", {16, 64, 4, 4}, {64, 3, 8, 8}, 8, {}, true},
    {"patches k16 s16", {8, 3, 224, 224}, {384, 3, 16, 16}, 16, {}},
};

double best_ms(const std::function<ca::Tensor()>& body) {
    using Clock = std::chrono::steady_clock;
    const auto once = [&] {
        const auto start = Clock::now();
        body().eval();
        return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    };
    once();
    const int n = std::clamp(static_cast<int>(400 / std::max(once(), 1e-3)), 5, 300);
    std::vector<double> times;
    for (int i = 0; i < n; ++i) times.push_back(once());
    return *std::min_element(times.begin(), times.end());
}

std::string implementation(const std::string& plan) {
    const std::size_t at = plan.rfind("]: ");
    return at == std::string::npos ? plan : plan.substr(at + 3, plan.find_first_of(";\n", at) - at - 3);
}

void run(const Case& c, ca::DType dtype) {
    const auto random = [&](const ca::Shape& shape) {
        ca::Tensor t = ca::normal(shape).to(dtype);
        t.eval();
        return t;
    };
    const ca::Tensor x = random(c.x), w = random(c.w);
    const ca::Dims sizes(std::span(c.x.data() + 2, c.x.size() - 2)), kernel(std::span(c.w.data() + 2, c.w.size() - 2));
    const ca::ConvOptions o{.stride = c.stride, .padding = c.padding};
    const ca::ConvTransposeOptions t{.stride = c.stride, .padding = c.padding};
    const auto forward = [&] { return c.transposed ? ca::conv_transpose(x, w, t) : ca::conv(x, w, o); };
    const ca::Tensor y = forward();
    const ca::Tensor gy = random(y.shape());
    const std::int64_t taps = ca::numel(c.w) / (c.w[0] * c.w[1]);
    const double products = static_cast<double>(c.transposed ? x.numel() * c.w[1] : y.numel() * c.x[1]);
    const double flops = 2 * products * static_cast<double>(taps);
    const std::function<ca::Tensor()> roles[] = {
        forward, [&] { return c.transposed ? ca::conv(gy, w, o) : ca::conv_input_grad(gy, w, sizes, o); },
        [&] { return c.transposed ? ca::conv_weight_grad(gy, x, kernel, o) : ca::conv_weight_grad(x, gy, kernel, o); }};
    const char* const names[] = {"fwd", "dgrad", "wgrad"};
    for (int i = 0; i < 3; ++i) {
        const double ms = best_ms(roles[i]);
        std::printf("%-32s %-5s %-6s %9.3f ms %7.1f GFLOP/s  %s\n", c.name, std::string(ca::name_of(dtype)).c_str(),
                    names[i], ms, flops / ms / 1e6, implementation(ca::explain_plan(roles[i]())).c_str());
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) {
    for (const Case& c : cases) {
        if (argc > 1 && std::string(c.name).find(argv[1]) == std::string::npos) continue;
        for (const ca::DType dtype : {ca::f32, ca::bf16}) run(c, dtype);
    }
}
