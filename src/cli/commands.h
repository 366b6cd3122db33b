// The commands of the program. Each adds its options to the command line and returns what to run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>

namespace calor::cli {

/// A mistake on the command line: one line to the user, exit status 2.
class UsageError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Set by the chosen command; gives the exit status.
using Action = std::function<int()>;

void add_explain(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);

}  // namespace calor::cli
