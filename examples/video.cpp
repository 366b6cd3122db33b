// Data with four spatial axes: a network over (time, depth, height, width), from the same functions as for images.
#include <calor/calor.h>

#include <cstdio>

namespace ca = calor;

struct Block {
    ca::nn::Conv spread{{.in = 1, .out = 4, .kernel = {3, 3, 3, 3}, .padding = ca::same}};
    ca::nn::Conv gather{{.in = 4, .out = 1, .kernel = {3, 3, 3, 3}, .padding = ca::same}};
    CALOR_FIELDS(spread, gather)

    ca::Tensor operator()(const ca::Tensor& x) const { return gather(ca::gelu(spread(x))); }
};

int main() {
    ca::manual_seed(1);
    const auto clean = ca::normal({1, 1, 4, 6, 8, 8});
    const auto noisy = clean + ca::normal({1, 1, 4, 6, 8, 8}) * 0.3F;
    Block net;
    ca::optim::Adam optimizer{ca::nn::parameters(net), {.learning_rate = 1e-2}};
    for (int step = 0; step < 20; ++step) {
        const auto loss = ca::nn::mse(net(noisy), clean);
        optimizer.step(ca::backward(loss));
        if (step % 5 == 4) std::printf("step %2d  loss %.4f\n", step + 1, loss.item<float>());
    }
}
