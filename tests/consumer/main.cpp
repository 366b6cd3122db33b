// Uses an installed calor the way a user's program does, and checks what it gets: a value, a gradient, an error.
#include <calor/calor.h>

#include <cstdio>

namespace ca = calor;

int main() {
    const ca::Tensor x = ca::tensor({1.f, 2.f, 3.f}).requires_grad();
    const ca::Tensor loss = ca::sum(x * x);
    const ca::Tensor slope = ca::backward(loss)[x];
    const bool right = loss.item<float>() == 14 && slope.to_vector<float>() == std::vector<float>{2, 4, 6};
    try {
        (void)(x + ca::tensor({1.f, 2.f}));
    } catch (const ca::ShapeError& error) {
        std::printf("%s\n", error.what());
        return right && ca::find_error(error.code()) ? 0 : 1;
    }
    return 1;
}
