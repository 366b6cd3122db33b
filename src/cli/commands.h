// The commands of the program: what each can be asked for, and the function that does it. The command line itself is
// read in main.cpp, the only file that pays for its library.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace calor::cli {

/// A mistake on the command line: one line to the user, exit status 2.
class UsageError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

struct ExplainOptions {
    std::string code;  ///< empty: list all
    bool json = false, markdown = false;
};
struct TrainOptions {
    std::int64_t epochs = 3, batch_size = 128;
    double learning_rate = 2e-3;
    std::uint64_t seed = 1;
    std::string out = "mnist.safetensors", resume, data = "data/mnist";
    std::string device;  ///< empty: the default one
    int threads = 0;     ///< 0: all cores
};
struct PredictOptions {
    std::string model;
    std::vector<std::string> images;
    int top = 3;
};

// Each gives the exit status.
int explain(const ExplainOptions& options);
int list_devices();
int show_cache(bool clear);
int train(TrainOptions options);
int predict(const PredictOptions& options);

}  // namespace calor::cli
