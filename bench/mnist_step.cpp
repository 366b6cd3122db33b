// One training step of the network of `calor train mnist`: forward, loss, backward, AdamW. Prints one JSON line with
// the median milliseconds; bench/mnist_step_torch.py is the peer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "calor/calor.h"
#include "cli/mnist_net.h"

namespace ca = calor;

namespace {

struct Options {
    int threads = 2, steps = 100;
    std::int64_t batch_size = 128;
    bool explain = false;
};

ca::Tensor random_images(std::int64_t count) {
    std::mt19937 engine(1);
    std::vector<float> pixels(static_cast<std::size_t>(count * 784));
    for (float& p : pixels) p = static_cast<float>(engine()) / 4294967296.0F;
    return ca::tensor(pixels, {count, 1, 28, 28});
}

ca::Tensor random_labels(std::int64_t count) {
    std::mt19937 engine(2);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
    for (auto& l : labels) l = static_cast<std::int64_t>(engine() % 10);
    return ca::tensor(labels);
}

int run(const Options& o) {
    ca::set_thread_count(o.threads);
    ca::manual_seed(0);
    ca::cli::MnistNet net;
    ca::optim::AdamW optimizer{ca::nn::parameters(net), {.learning_rate = 1e-3}};
    const ca::Tensor images = random_images(o.batch_size), labels = random_labels(o.batch_size);
    float last = 0;
    const auto step = [&] {
        const ca::Tensor loss = ca::nn::cross_entropy(net(images), labels);
        optimizer.step(ca::backward(loss));
        last = loss.item<float>();
    };
    for (int i = 0; i < 10; ++i) step();
    std::vector<double> times;
    for (int i = 0; i < o.steps; ++i) {
        const auto start = std::chrono::steady_clock::now();
        step();
        times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(times);
    if (o.explain) fmt::print("{}", ca::explain_plan(ca::nn::cross_entropy(net(images), labels)));
    fmt::print(
        "{{\"id\": \"mnist_step\", \"pass\": \"step\", \"ms\": {:.4f}, \"least_ms\": {:.4f}, \"batch\": {}, \"loss\": "
        "{:.6f}}}\n",
        times[times.size() / 2], times.front(), o.batch_size, last);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options o;
    CLI::App app{"Training step of the MNIST network"};
    app.add_option("--threads", o.threads)->check(CLI::Range(1, 1024));
    app.add_option("--steps", o.steps)->check(CLI::Range(1, 1000000));
    app.add_option("--batch-size", o.batch_size)->check(CLI::Range(1, 1000000));
    app.add_flag("--explain", o.explain, "Print which implementations ran");
    CLI11_PARSE(app, argc, argv);
    return run(o);
}
