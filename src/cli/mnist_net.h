// The network that `calor train mnist` trains and `calor predict` runs: two convolutions, each with relu and a halving
// max pool, and two fully connected layers. 421,642 parameters.
#pragma once

#include <string>

#include "calor/io.h"
#include "calor/nn.h"

namespace calor::cli {

inline constexpr const char* mnist_architecture = "calor-mnist-cnn-1";
// Mean and standard deviation of the training images' pixels, in 0..1.
inline constexpr float mnist_mean = 0.1307F;
inline constexpr float mnist_deviation = 0.3081F;

struct MnistNet {
    nn::Conv conv1{{.in = 1, .out = 32, .kernel = {3, 3}, .padding = same}};
    nn::Conv conv2{{.in = 32, .out = 64, .kernel = {3, 3}, .padding = same}};
    nn::Linear hidden{{.in = 64 * 7 * 7, .out = 128}};
    nn::Linear head{{.in = 128, .out = 10}};
    CALOR_FIELDS(conv1, conv2, hidden, head)

    /// Scores [N, 10] of normalised images [N, 1, 28, 28].
    Tensor operator()(const Tensor& images) const {
        Tensor x = max_pool(relu(conv1(images)), {.kernel = {2, 2}});
        x = max_pool(relu(conv2(x)), {.kernel = {2, 2}});
        return head(relu(hidden(flatten(x, 1))));
    }
};

}  // namespace calor::cli
