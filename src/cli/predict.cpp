// calor predict MODEL IMAGE...: the classes that a trained network sees in PNG or JPEG files, with probabilities.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "calor/data.h"
#include "calor/softmax.h"
#include "cli/commands.h"
#include "cli/mnist_net.h"

namespace calor::cli {
namespace {

/// The image as the network knows them: 28x28, bright on dark, normalised.
Tensor prepare(const std::string& path) {
    const Tensor image = data::read_image(path, {.channels = 1, .height = 28, .width = 28});
    std::vector<float> pixels;
    double border = 0;
    const auto values = image.data<std::uint8_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t row = i / 28, column = i % 28;
        if (row == 0 || row == 27 || column == 0 || column == 27) border += values[i];
        pixels.push_back(static_cast<float>(values[i]) / 255.0F);
    }
    const bool dark_on_bright = border / 108 > 127;  // ink on paper
    for (float& p : pixels) p = ((dark_on_bright ? 1 - p : p) - mnist_mean) / mnist_deviation;
    return tensor(pixels, {1, 1, 28, 28});
}

}  // namespace

int predict(const PredictOptions& o) {
    MnistNet net;
    const io::Metadata metadata = io::load_model(o.model, net);
    const auto is_ours = [](const auto& entry) {
        return entry.first == "architecture" && entry.second == mnist_architecture;
    };
    if (std::ranges::none_of(metadata, is_ours)) throw UsageError(o.model + " was not made by calor train mnist");
    const NoGrad guard;
    std::size_t width = 0;
    for (const auto& path : o.images) width = std::max(width, path.size());
    for (const auto& path : o.images) {
        const auto probability = softmax(net(prepare(path)), 1).to_vector<float>();
        std::vector<std::size_t> order(probability.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(order, std::greater{}, [&](std::size_t c) { return probability[c]; });
        std::string line;
        for (int k = 0; k < o.top; ++k) {
            const std::size_t c = order[static_cast<std::size_t>(k)];
            line += fmt::format("   {} {:5.1f} %", c, 100 * probability[c]);
        }
        fmt::print("{:<{}}{}\n", path, width, line);
    }
    return 0;
}

}  // namespace calor::cli
