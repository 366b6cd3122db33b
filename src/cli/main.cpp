// calor: train, predict, explain, devices. Exit status 0: done; 1: an error while running; 2: a mistake on the command
// line; 130: interrupted, with the state saved.
#include <fmt/format.h>

#include <exception>

#include "calor/error.h"
#include "cli/commands.h"

namespace {

int run(int argc, char** argv) {
    CLI::App app{"calor: tensors, gradients, networks and training"};
    app.set_version_flag("--version", "calor " CALOR_VERSION);
    app.require_subcommand(1);
    calor::cli::Action action;
    calor::cli::add_train(app, action);
    calor::cli::add_predict(app, action);
    calor::cli::add_explain(app, action);
    calor::cli::add_devices(app, action);
    try {
        app.parse(argc, argv);
        return action();
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
        fmt::print(stderr, "calor: {} (see calor --help)\n", e.what());
        return 2;
    } catch (const calor::cli::UsageError& e) {
        fmt::print(stderr, "calor: {}\n", e.what());
        return 2;
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
