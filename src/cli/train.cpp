// calor train mnist: trains the network of mnist_net.h. Ctrl-C finishes the batch and saves everything that the rest of
// the run depends on; --resume goes on from there and ends with the same weights, bit for bit, as a run that was not
// interrupted.
#include <fmt/format.h>
#include <zlib.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "calor/data.h"
#include "calor/optim.h"
#include "calor/random.h"
#include "calor/train.h"
#include "cli/commands.h"
#include "cli/mnist_net.h"

namespace calor::cli {
namespace {

std::string checkpoint_path(const TrainOptions& o) { return o.out + ".checkpoint"; }

/// Everything that changes while training, and where in the run it stands.
class Training {
public:
    Training(const TrainOptions& options, const data::Mnist& mnist)
        : options_(options),
          train_(
              std::make_shared<data::TensorDataset>(with_channel(mnist.train_images), mnist.train_labels, scaling())),
          test_(std::make_shared<data::TensorDataset>(with_channel(mnist.test_images), mnist.test_labels, scaling())),
          loader_(train_, {.batch_size = options.batch_size, .shuffle = true, .seed = options.seed}),
          optimizer_(nn::parameters(net_), {.learning_rate = options.learning_rate}) {}

    void load(const std::string& path) {
        const io::TensorFile file = io::load(path);
        for (const nn::NamedCell& c : nn::state(net_)) c.cell->set(file.at("net." + c.name), c.name);
        constexpr std::string_view prefix = "optimizer.";
        NamedTensors optimizer;
        for (const NamedTensor& t : file.tensors) {
            if (t.name.starts_with(prefix)) optimizer.push_back({t.name.substr(prefix.size()), t.value});
        }
        optimizer_.load_state(optimizer);
        for (const auto& [key, value] : file.metadata) {
            if (key == "epoch") epoch_ = std::stoll(value);
            if (key == "batch") batch_ = std::stoll(value);
        }
    }

    /// Runs the epochs that are left; false when interrupted.
    bool run() {
        const train::InterruptGuard interrupt;
        for (; epoch_ < options_.epochs; ++epoch_, batch_ = 0) {
            if (!run_epoch(interrupt)) return false;
            save_checkpoint(epoch_ + 1, 0);
        }
        return true;
    }

    void save_checkpoint(std::int64_t epoch, std::int64_t batch) const {
        NamedTensors all;
        for (const NamedTensor& t : nn::named_tensors(nn::state(net_))) all.push_back({"net." + t.name, t.value});
        for (const NamedTensor& t : optimizer_.state()) all.push_back({"optimizer." + t.name, t.value});
        io::save(checkpoint_path(options_), all,
                 {{"architecture", mnist_architecture},
                  {"epoch", std::to_string(epoch)},
                  {"batch", std::to_string(batch)},
                  {"epochs", std::to_string(options_.epochs)},
                  {"batch_size", std::to_string(options_.batch_size)},
                  {"learning_rate", fmt::format("{}", options_.learning_rate)},
                  {"seed", std::to_string(options_.seed)}});
    }
    void save_model() const { io::save_model(options_.out, net_, {{"architecture", mnist_architecture}}); }

    double test_accuracy() const {
        const NoGrad guard;
        data::Loader loader(test_, {.batch_size = 500});
        std::int64_t correct = 0;
        for (auto [images, labels] : loader) correct += train::count_correct(net_(images), labels);
        return static_cast<double>(correct) / static_cast<double>(test_->size());
    }

    /// CRC-32 of all parameters: two runs that print the same one have the same weights.
    unsigned long fingerprint() const {
        unsigned long crc = crc32(0, nullptr, 0);
        for (const NamedTensor& t : nn::named_tensors(nn::state(net_))) {
            const auto values = t.value.data<float>();
            crc = crc32(crc, reinterpret_cast<const Bytef*>(values.data()), static_cast<uInt>(values.size_bytes()));
        }
        return crc;
    }
    std::int64_t epoch() const { return epoch_; }
    std::int64_t batch() const { return batch_; }

private:
    static Tensor with_channel(const Tensor& images) { return unsqueeze(images, 1); }
    static data::TensorDataset::Options scaling() {
        return {.scale = 1 / (255 * mnist_deviation), .shift = -mnist_mean / mnist_deviation};
    }

    /// A short warm-up, then half a cosine down to zero over the whole run.
    double rate_at(std::int64_t step) const {
        const auto total = static_cast<double>(options_.epochs * loader_.size());
        const double warm = std::min(100.0, total / 10), at = static_cast<double>(step);
        if (at < warm) return options_.learning_rate * (at + 1) / (warm + 1);
        return options_.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * (at - warm) / (total - warm)));
    }

    bool run_epoch(const train::InterruptGuard& interrupt) {
        train::Progress progress({.label = fmt::format("epoch {}/{}", epoch_ + 1, options_.epochs),
                                  .total = loader_.size(),
                                  .done = batch_,
                                  .unit = "images",
                                  .units_a_step = static_cast<double>(options_.batch_size)});
        train::Mean loss_mean, accuracy;
        std::string status;
        loader_.seek(epoch_, batch_);
        for (auto [images, labels] : loader_) {
            optimizer_.set_learning_rate(rate_at(epoch_ * loader_.size() + batch_));
            const Tensor scores = net_(images);
            const Tensor loss = nn::cross_entropy(scores, labels);
            optimizer_.step(backward(loss));
            const auto count = static_cast<double>(labels.numel());
            loss_mean.add(loss.item<float>(), count);
            accuracy.add(static_cast<double>(train::count_correct(scores, labels)) / count, count);
            ++batch_;
            status = fmt::format("loss {:.4f}  accuracy {:.2f} %", loss_mean.value(), 100 * accuracy.value());
            progress.update(batch_, status);
            if (interrupt.requested() && batch_ < loader_.size()) {
                save_checkpoint(epoch_, batch_);
                return false;
            }
        }
        progress.finish(status + fmt::format("  test {:.2f} %", 100 * test_accuracy()));
        if (!interrupt.requested() || epoch_ + 1 == options_.epochs) return true;
        save_checkpoint(epoch_ + 1, 0);
        return false;
    }

    TrainOptions options_;
    std::shared_ptr<data::TensorDataset> train_, test_;
    data::Loader loader_;
    MnistNet net_;
    optim::AdamW optimizer_;
    std::int64_t epoch_ = 0, batch_ = 0;
};

template <class T> T number(const std::string& text, const std::string& path) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        throw UsageError(path + " is not a checkpoint of calor train mnist");
    return value;
}

/// The run that a checkpoint belongs to decides everything but where to write and how many threads work.
void take_from_checkpoint(TrainOptions& o) {
    const io::TensorFile file = io::load(o.resume);
    bool ours = false;
    for (const auto& [key, value] : file.metadata) {
        if (key == "architecture") ours = value == mnist_architecture;
        if (key == "epochs") o.epochs = number<std::int64_t>(value, o.resume);
        if (key == "batch_size") o.batch_size = number<std::int64_t>(value, o.resume);
        if (key == "learning_rate") o.learning_rate = number<double>(value, o.resume);
        if (key == "seed") o.seed = number<std::uint64_t>(value, o.resume);
    }
    if (!ours) throw UsageError(o.resume + " is not a checkpoint of calor train mnist");
}

void check_writable(const std::string& out) {
    const auto folder = std::filesystem::path(out).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder))
        throw UsageError("--out: there is no folder " + folder.string());
}

}  // namespace

int train(TrainOptions o) {
    check_writable(o.out);
    if (!o.device.empty()) set_default_device(device_named(o.device));
    if (o.threads > 0) set_thread_count(o.threads);
    if (!o.resume.empty()) take_from_checkpoint(o);
    manual_seed(o.seed);
    const data::Mnist mnist = [&] {
        const OnDevice scope(Device{});  // batches go to the device, the whole set stays here
        return data::load_mnist(o.data);
    }();
    Training training(o, mnist);
    if (!o.resume.empty()) training.load(o.resume);
    const auto start = std::chrono::steady_clock::now();
    if (!training.run()) {
        fmt::print("interrupted: the state is in {}\nresume with: calor train mnist --resume {} --out {}\n",
                   checkpoint_path(o), checkpoint_path(o), o.out);
        return 130;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    training.save_model();
    std::filesystem::remove(checkpoint_path(o));
    const Device device = default_device();
    fmt::print("test accuracy {:.2f} % of 10,000 images, after {:.1f} s of training on {}\n",
               100 * training.test_accuracy(), seconds,
               device.kind == DeviceKind::cpu ? fmt::format("{} threads", thread_count()) : to_string(device));
    fmt::print("weights {:08x} saved to {}\n", training.fingerprint(), o.out);
    return 0;
}

}  // namespace calor::cli
