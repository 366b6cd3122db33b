// Runs the cases of a case file and writes one JSON line a measurement, as torch_peer.py does:
//   {"id", "pass", "ms", "bytes", "flops"} or {"id", "pass", "error"}
// with ms the median of one call after a warm-up, bytes the least traffic (every operand read once, every result
// written once) and flops multiply-adds counted as two. compare.py joins the two files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "case_problems.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_copy.h"

namespace ca = calor;
using nlohmann::json;

namespace {

double seconds(const std::function<void()>& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// --best: the fastest call stands for all, for a machine that others use too.
bool best_only = false;

/// Median milliseconds of a call, over about 0.4 s.
double median_ms(const std::function<void()>& call) {
    call();
    const double once = seconds(call);
    const int count = std::clamp(static_cast<int>(0.4 / std::max(once, 1e-6)), 3, 200);
    std::vector<double> times(count);
    for (double& t : times) t = seconds(call);
    if (best_only) return *std::min_element(times.begin(), times.end()) * 1e3;
    std::nth_element(times.begin(), times.begin() + count / 2, times.end());
    return times[count / 2] * 1e3;
}

/// The machine's copy of 128 MiB: the ceiling of memory-bound operations.
json copy_line() {
    constexpr std::int64_t count = 1 << 25;
    const ca::Tensor from = ca::normal({count}).eval(), to = ca::zeros({count}).eval();
    const float* source = from.data<float>().data();
    float* target = const_cast<float*>(to.data<float>().data());
    const double ms = median_ms([&] {
        ca::cpu::parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
            ca::cpu::stream_copy(target + begin, source + begin, (end - begin) * 4);
        });
    });
    return {{"id", "copy"}, {"pass", "fwd"}, {"ms", ms}, {"bytes", 8 * count}, {"flops", 0}};
}

/// The least traffic of a case, counted as torch_peer.py counts it.
std::int64_t least_bytes(const json& c, const bench::Problem& problem, const ca::Tensor& y) {
    std::int64_t reads = 0;
    for (const bench::Pass& pass : problem.passes) {
        for (const ca::Tensor& t : pass.inputs) reads += t.numel();
    }
    if (c["op"] == "embedding_grad") reads = y.numel();
    if (reads == 0) {
        for (const char* key : {"x", "b"}) {
            if (!c.contains(key)) continue;
            std::int64_t all = 1;
            for (const json& size : c[key]) all *= size.get<std::int64_t>();
            reads += all;
        }
    }
    return (reads + y.numel()) * ca::size_of(y.dtype());
}

void run(const json& c, const std::function<void(json)>& say) {
    const json id{{"id", c["id"]}};
    const auto line = [&](const std::string& pass, json rest) {
        rest.update(id);
        rest["pass"] = pass;
        say(std::move(rest));
    };
    bench::Problem problem;
    ca::Tensor y;
    std::int64_t bytes = 0;
    try {
        problem = bench::problem(c);
        line("fwd", {{"ms", median_ms([&] { problem.forward().eval(); })},
                     {"bytes", bytes = least_bytes(c, problem, problem.forward())},
                     {"flops", problem.flops}});
        y = problem.forward();
        y.eval();
    } catch (const std::exception& error) {
        line("fwd", {{"error", error.what()}});
        return;
    }
    for (const bench::Pass& pass : problem.passes) {
        try {
            const ca::Tensor cotangent = bench::values_of_case(y.shape(), c).to(y.dtype()).eval();
            const double ms =
                median_ms([&] { ca::eval(ca::gradients({y}, pass.inputs, {cotangent}, {.retain_graph = true})); });
            const double times = pass.name == "bwd" ? static_cast<double>(pass.inputs.size()) : 1;
            line(pass.name, {{"ms", ms}, {"bytes", bytes}, {"flops", problem.flops * times}});
        } catch (const std::exception& error) {
            line(pass.name, {{"error", error.what()}});
        }
    }
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{"Times the cases of a case file, one JSON line a measurement"};
    std::string cases, only, out = "-";
    int threads = 0;
    app.add_option("cases", cases, "case file")->required();
    app.add_option("--only", only, "only cases whose id contains this");
    app.add_option("--out", out, "file of the lines; - is the terminal");
    app.add_option("--threads", threads, "number of threads");
    app.add_flag("--best", best_only, "the fastest call rather than the median, for a machine that others use too");
    CLI11_PARSE(app, argc, argv);
    if (threads > 0) ca::set_thread_count(threads);
    std::ofstream file;
    if (out != "-") file.open(out);
    std::ostream& lines = out == "-" ? std::cout : file;
    const auto say = [&](const json& line) { lines << line.dump() << std::endl; };
    say(copy_line());
    std::ifstream input(cases);
    for (const json& c : json::parse(input)) {
        if (c["id"].get<std::string>().find(only) != std::string::npos) run(c, say);
    }
    return 0;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
