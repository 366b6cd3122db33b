// calor: train, predict, explain, devices, cache. Exit status 0: done; 1: an error while running; 2: a mistake on the
// command line; 130: interrupted, with the state saved.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <memory>

#include "calor/error.h"
#include "cli/commands.h"

namespace calor::cli {
namespace {

/// Set by the chosen command.
using Action = std::function<int()>;

void add_explain(CLI::App& app, Action& action) {
    auto o = std::make_shared<ExplainOptions>();
    CLI::App* command = app.add_subcommand("explain", "Explain an error code, or list all codes");
    command->add_option("code", o->code, "A code such as conv/channels");
    auto* json = command->add_flag("--json", o->json, "The whole catalogue as JSON");
    command->add_flag("--markdown", o->markdown, "The whole catalogue as Markdown")->excludes(json);
    command->callback([o, &action] { action = [o] { return explain(*o); }; });
}

void add_devices(CLI::App& app, Action& action) {
    app.add_subcommand("devices", "List the devices of this machine")->callback([&action] { action = list_devices; });
}

void add_cache(CLI::App& app, Action& action) {
    auto clear = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("cache", "Show the compiled GPU kernels that are kept on disk");
    command->add_flag("--clear", *clear, "Delete them");
    command->callback([clear, &action] { action = [clear] { return show_cache(*clear); }; });
}

void add_train(CLI::App& app, Action& action) {
    auto o = std::make_shared<TrainOptions>();
    CLI::App* parent = app.add_subcommand("train", "Train a network");
    parent->require_subcommand(1);
    CLI::App* mnist = parent->add_subcommand("mnist", "A small convolutional network on handwritten digits");
    auto* epochs =
        mnist->add_option("--epochs", o->epochs, "Passes over the training images")->check(CLI::Range(1, 10000));
    auto* batch = mnist->add_option("--batch-size", o->batch_size, "Images a step")->check(CLI::Range(1, 60000));
    auto* rate = mnist->add_option("--learning-rate", o->learning_rate, "Largest step size of AdamW")
                     ->check(CLI::Range(1e-8, 10.0));
    auto* seed = mnist->add_option("--seed", o->seed, "Of the weights and the order of images");
    mnist->add_option("--out", o->out, "Where the trained network goes (safetensors)");
    auto* resume =
        mnist->add_option("--resume", o->resume, "A checkpoint that an interrupted run left")->check(CLI::ExistingFile);
    resume->excludes(epochs)->excludes(batch)->excludes(rate)->excludes(seed);
    mnist->add_option("--threads", o->threads, "Worker threads (default: all cores)")->check(CLI::Range(1, 1024));
    mnist->add_option("--data", o->data, "Folder with the MNIST files")->check(CLI::ExistingDirectory);
    for (CLI::Option* option : mnist->get_options()) option->capture_default_str();
    mnist->add_option("--device", o->device, "Where to train: cpu, cuda, opencl (default: CALOR_DEVICE, else cpu)");
    mnist->callback([o, &action] { action = [o] { return train(*o); }; });
}

void add_predict(CLI::App& app, Action& action) {
    auto o = std::make_shared<PredictOptions>();
    CLI::App* command = app.add_subcommand("predict", "Name the classes in images");
    command->add_option("model", o->model, "A network that calor train wrote")->required();
    command->add_option("images", o->images, "PNG or JPEG files")->required();
    command->add_option("--top", o->top, "How many classes to print")->check(CLI::Range(1, 10))->capture_default_str();
    command->callback([o, &action] { action = [o] { return predict(*o); }; });
}

int run(int argc, char** argv) {
    CLI::App app{"calor: tensors, gradients, networks and training"};
    app.set_version_flag("--version", "calor " CALOR_VERSION);
    app.require_subcommand(1);
    Action action;
    add_train(app, action);
    add_predict(app, action);
    add_explain(app, action);
    add_devices(app, action);
    add_cache(app, action);
    try {
        app.parse(argc, argv);
        return action();
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
        fmt::print(stderr, "calor: {} (see calor --help)\n", e.what());
        return 2;
    } catch (const UsageError& e) {
        fmt::print(stderr, "calor: {}\n", e.what());
        return 2;
    }
}

}  // namespace
}  // namespace calor::cli

int main(int argc, char** argv) {
    try {
        return calor::cli::run(argc, argv);
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 1;
    }
}
