// Runs the cases of a case file and writes one JSON line a measurement, as torch_peer.py does:
//   {"id", "pass", "ms", "bytes", "flops", "ran"} or {"id", "pass", "error"}
// with ms the median of one call after a warm-up, bytes the least traffic (every operand read once, every result
// written once), flops multiply-adds counted as two, and what ran: operation:implementation. compare.py joins the two
// files.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>

#include "case_lines.h"
#include "case_problems.h"
#include "stopwatch.h"

namespace ca = calor;
using nlohmann::json;

namespace {

struct Options {
    std::string cases, filter, out = "-", device = "cpu", shard = "0/1";
    int threads = 0;
    unsigned patience = 0;  ///< seconds that a pass may take; 0: as long as it likes
    bool skip_done = false;
    bench::Timing timing;
};

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

/// "conv:implicit_gemm (tile 64x64), mul + add:fused loop": what explain_plan said, without shapes and refusals.
std::string short_plan(const std::vector<ca::Tensor>& results) {
    std::string text;
    for (const ca::Tensor& t : results) {
        std::istringstream plan(ca::explain_plan(t));
        for (std::string line; std::getline(plan, line);) {
            const std::size_t arrow = line.find(" -> "), colon = line.find("]: ");
            if (arrow == std::string::npos || colon == std::string::npos) continue;
            const std::string how = line.substr(colon + 3);
            text += (text.empty() ? "" : ", ") + line.substr(0, arrow) + ":" + how.substr(0, how.find("; not "));
        }
    }
    return text.substr(0, 300);
}

class Runner {
public:
    Runner(const Options& o, bench::Lines& lines)
        : options_(o), device_(ca::device_named(o.device)), lines_(lines), watch_(device_, o.timing) {}

    void copy() {
        std::int64_t bytes = 0;
        pass("copy", "fwd", [&] {
            const double ms = watch_.measure_copy(bytes);
            return json{{"ms", ms}, {"bytes", bytes}, {"flops", 0}};
        });
    }

    void run(const json& c) {
        const std::string id = c["id"];
        // TF32 where the peer allows it.
        ca::set_tf32(!c.value("exact", false));
        bench::Problem problem;
        ca::Tensor y;
        std::int64_t bytes = 0;
        const auto prepare = [&] {
            problem = bench::problem(c);
            y = problem.forward();
            bytes = least_bytes(c, problem, y);
            y.eval();
        };
        const bool there = pass(id, "fwd", [&] {
            prepare();
            return json{{"ms", watch_.measure([&] { problem.forward().eval(); })},
                        {"bytes", bytes},
                        {"flops", problem.flops},
                        {"ran", short_plan({problem.forward()})}};
        });
        if (lines_.failed(id, "fwd")) return;
        if (!there) prepare();
        if (!y.defined()) return;
        for (const bench::Pass& p : problem.passes) {
            pass(id, p.name, [&] {
                const ca::Tensor cotangent = bench::values_of_case(y.shape(), c).to(y.dtype()).eval();
                const auto gradients = [&] {
                    return ca::gradients({y}, p.inputs, {cotangent}, {.retain_graph = true});
                };
                const double ms = watch_.measure([&] { ca::eval(gradients()); });
                const double times = p.name == "bwd" ? static_cast<double>(p.inputs.size()) : 1;
                return json{
                    {"ms", ms}, {"bytes", bytes}, {"flops", problem.flops * times}, {"ran", short_plan(gradients())}};
            });
        }
    }

private:
    /// Writes the line of a pass, and whether it had to be measured: a line may be there already.
    template <class F> bool pass(const std::string& id, const std::string& name, const F& measure) {
        if (lines_.has(id, name)) return false;
        if (options_.patience > 0) lines_.alarm_in(options_.patience, id, name);
        try {
            json line = measure();
            lines_.calm();
            line["id"] = id;
            line["pass"] = name;
            lines_.say(line);
        } catch (const std::exception& error) {
            lines_.calm();
            lines_.say_error(id, name, error.what());
            recover();
        }
        return true;
    }

    /// After an error: memory that a case had left goes back, and a device that is lost gets a new process.
    void recover() {
        try {
            ca::empty_cache(device_);
            const ca::Tensor two = ca::full({2}, 1.0) + 1.0;
            watch_.synchronize();
            if (two.to_vector<float>()[1] == 2.0F) return;
        } catch (const std::exception& error) {
            std::cerr << error.what() << '\n';
        }
        lines_.restart();
    }

    const Options& options_;
    ca::Device device_;
    bench::Lines& lines_;
    bench::Stopwatch watch_;
};

void add_options(CLI::App& app, Options& o) {
    app.add_option("cases", o.cases, "case file")->required();
    app.add_option("--device", o.device, "cpu, cuda, opencl, cuda:1, ...");
    app.add_option("--filter,--only", o.filter, "only cases in whose id this regular expression is found");
    app.add_option("--out", o.out, "file of the lines; - is the terminal");
    app.add_option("--threads", o.threads, "number of threads");
    app.add_option("--limit-ms", o.timing.limit_ms, "what the timed calls of a pass take on a GPU");
    app.add_option("--warmup-ms", o.timing.warmup_ms, "what the calls before them take");
    app.add_option("--patience", o.patience, "seconds after which a pass counts as hung; the run goes on behind it");
    app.add_option("--shard", o.shard, "2/8: of the cases only every eighth, from number 2");
    app.add_flag("--skip-done", o.skip_done, "continue the file: what it has is not measured again");
    app.add_flag("--once", o.timing.once, "run everything once and time nothing: fills the caches on disk");
    app.add_flag("--best", o.timing.best, "the fastest call rather than the median, for a machine that others use too");
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app{"Times the cases of a case file, one JSON line a measurement"};
    Options o;
    add_options(app, o);
    CLI11_PARSE(app, argc, argv);
    if (o.threads > 0) ca::set_thread_count(o.threads);
    ca::set_default_device(ca::device_named(o.device));
    bench::Lines lines(o.out, o.skip_done);
    lines.restart_with(argc, argv);
    Runner runner(o, lines);
    if (!o.timing.once) runner.copy();
    const std::size_t slash = o.shard.find('/');
    const std::size_t own = std::stoul(o.shard),
                      shards = slash == std::string::npos ? 1 : std::stoul(o.shard.substr(slash + 1));
    const std::regex filter(o.filter);
    std::ifstream input(o.cases);
    std::size_t number = 0;
    for (const json& c : json::parse(input)) {
        if (!std::regex_search(c["id"].get<std::string>(), filter)) continue;
        if (number++ % std::max<std::size_t>(shards, 1) == own) runner.run(c);
    }
    return 0;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
