// The batch loader. A thread makes batches ahead into a bounded queue; what it makes is a function of (seed, epoch)
// alone.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "calor/data.h"
#include "core/fail.h"

namespace calor::data {
namespace {

/// splitmix64 (Steele, Lea, Flood 2014): one well-mixed number a step.
std::uint64_t next_random(std::uint64_t& state) {
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
}

void check_at_least(std::string_view option, std::int64_t got, std::int64_t least, const Where& where) {
    if (got >= least) return;
    fail("value/option", "loader", where,
         {{"option", option},
          {"got", got},
          {"expected", std::to_string(least) + " or more"},
          {"help", "see LoaderOptions"}});
}

}  // namespace

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
    auto order = host_array<std::int64_t>(count, "loader", Where::current());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::uint64_t state = seed;
    state = next_random(state) ^ (epoch * 0xd1342543de82ef95ULL);
    for (std::size_t i = order.size(); i > 1; --i) {
        const auto j = static_cast<std::size_t>((static_cast<unsigned __int128>(next_random(state)) * i) >> 64U);
        std::swap(order[i - 1], order[j]);
    }
    return order;
}

TensorDataset::TensorDataset(const Tensor& inputs, const Tensor& targets, Options options, const Where& where)
    : inputs_(inputs), targets_(targets), options_(options) {
    if (inputs.rank(where) < 1 || targets.rank(where) < 1 || inputs.size(0) != targets.size(0)) {
        fail("shape/mismatch", "TensorDataset", where,
             {{"argument", "the targets"},
              {"got", targets.shape()},
              {"expected", "as many samples as the inputs"},
              {"help", "samples lie along the first axis"}},
             "inputs " + describe(inputs) + ", targets " + describe(targets));
    }
    count_ = inputs.size(0);
    eval({inputs_, targets_});
}

namespace {

template <class T> Tensor rows(const Tensor& from, std::span<const std::int64_t> samples) {
    const std::span<const T> all = from.data<T>();
    Shape shape = from.shape();
    shape[0] = std::ssize(samples);
    const std::size_t row = all.size() / static_cast<std::size_t>(std::max<std::int64_t>(1, from.size(0)));
    auto values = host_array<T>(numel(shape), "TensorDataset", Where::current());
    for (std::size_t i = 0; i < samples.size(); ++i) {
        std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(samples[i])), row,
                    values.begin() + static_cast<std::ptrdiff_t>(row * i));
    }
    return tensor(values, shape);
}

Tensor rows_of(const Tensor& from, std::span<const std::int64_t> samples) {
    switch (from.dtype()) {
        case f64: return rows<double>(from, samples);
        case f32: return rows<float>(from, samples);
        case f16: return rows<float16>(from, samples);
        case bf16: return rows<bfloat16>(from, samples);
        case i64: return rows<std::int64_t>(from, samples);
        case i32: return rows<std::int32_t>(from, samples);
        case i16: return rows<std::int16_t>(from, samples);
        case i8: return rows<std::int8_t>(from, samples);
        case u64: return rows<std::uint64_t>(from, samples);
        case u32: return rows<std::uint32_t>(from, samples);
        case u16: return rows<std::uint16_t>(from, samples);
        case u8: return rows<std::uint8_t>(from, samples);
        case boolean: return rows_of(from.to(u8), samples).to(boolean);
    }
    fail_internal("a dtype without rows");
}

/// u8 samples as scaled f32 in one pass.
Tensor scaled_rows(const Tensor& from, std::span<const std::int64_t> samples, const TensorDataset::Options& options) {
    const std::span<const std::uint8_t> all = from.data<std::uint8_t>();
    Shape shape = from.shape();
    shape[0] = std::ssize(samples);
    const std::size_t row = all.size() / static_cast<std::size_t>(std::max<std::int64_t>(1, from.size(0)));
    auto values = host_array<float>(numel(shape), "TensorDataset", Where::current());
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const std::uint8_t* in = all.data() + row * static_cast<std::size_t>(samples[i]);
        float* out = values.data() + row * i;
        for (std::size_t k = 0; k < row; ++k) out[k] = static_cast<float>(in[k]) * options.scale + options.shift;
    }
    return tensor(values, shape);
}

}  // namespace

Batch TensorDataset::batch(std::span<const std::int64_t> samples) const {
    for (std::size_t i = 0; i < samples.size(); ++i) {
        if (samples[i] < 0 || samples[i] >= count_) {
            fail("index/range", "TensorDataset", Where::current(),
                 {{"index", samples[i]},
                  {"position", std::to_string(i)},
                  {"axis", 0},
                  {"size", count_},
                  {"low", 0},
                  {"high", count_ - 1}});
        }
    }
    return {inputs_.dtype() == u8 ? scaled_rows(inputs_, samples, options_) : rows_of(inputs_, samples),
            rows_of(targets_, samples)};
}

struct Loader::State {
    std::shared_ptr<const Dataset> dataset;
    LoaderOptions options;
    std::int64_t epoch = 0;        // the epoch that the next begin() starts
    std::int64_t first_batch = 0;  // where it starts
    // The running epoch:
    std::vector<std::int64_t> order;
    std::int64_t next = 0, count = 0;
    std::thread worker;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Batch> ready;
    std::exception_ptr error;
    bool stop = false;

    ~State() { halt(); }

    std::int64_t batches() const {
        const std::int64_t n = dataset->size(), b = options.batch_size;
        return options.drop_last ? n / b : n / b + (n % b != 0 ? 1 : 0);
    }
    Batch make(std::int64_t index) const {
        const std::int64_t begin = index * options.batch_size;
        const std::int64_t end = std::min(begin + options.batch_size, std::ssize(order));
        return dataset->batch({order.data() + begin, static_cast<std::size_t>(end - begin)});
    }
    void halt() {
        {
            const std::lock_guard lock(mutex);
            stop = true;
        }
        changed.notify_all();
        if (worker.joinable()) worker.join();
        ready.clear();
        error = nullptr;
        stop = false;
    }
    void work(std::int64_t from) {
        try {
            for (std::int64_t i = from; i < count; ++i) {
                Batch made = make(i);
                std::unique_lock lock(mutex);
                changed.wait(lock, [&] { return stop || std::ssize(ready) < options.prefetch; });
                if (stop) return;
                ready.push_back(std::move(made));
                changed.notify_all();
            }
        } catch (...) {
            const std::lock_guard lock(mutex);
            error = std::current_exception();
            changed.notify_all();
        }
    }
    Batch take() {
        if (options.prefetch == 0) return make(next++);
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !ready.empty() || error; });
        if (ready.empty()) std::rethrow_exception(error);
        Batch taken = std::move(ready.front());
        ready.pop_front();
        ++next;
        changed.notify_all();
        return taken;
    }
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, const Where& where)
    : state_(std::make_unique<State>()) {
    check_at_least("batch_size", options.batch_size, 1, where);
    check_at_least("prefetch", options.prefetch, 0, where);
    if (!dataset) fail("tensor/undefined", "loader", where, {{"argument", "the dataset"}});
    state_->dataset = std::move(dataset);
    state_->options = options;
}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

std::int64_t Loader::size() const { return state_->batches(); }
std::int64_t Loader::epoch() const { return state_->epoch; }

void Loader::seek(std::int64_t epoch, std::int64_t batch, const Where& where) {
    check_at_least("epoch", epoch, 0, where);
    check_at_least("batch", batch, 0, where);
    state_->epoch = epoch;
    state_->first_batch = batch;
}

Loader::Iterator Loader::begin() {
    State& s = *state_;
    s.halt();
    const std::int64_t n = s.dataset->size();
    if (s.options.shuffle) {
        s.order = shuffled(n, s.options.seed, static_cast<std::uint64_t>(s.epoch));
    } else {
        s.order = host_array<std::int64_t>(n, "loader", Where::current());
        std::iota(s.order.begin(), s.order.end(), std::int64_t{0});
    }
    s.count = s.batches();
    s.next = std::min(s.first_batch, s.count);
    s.first_batch = 0;
    ++s.epoch;
    if (s.options.prefetch > 0 && s.next < s.count) s.worker = std::thread([&s, from = s.next] { s.work(from); });
    return Iterator(this);
}

Loader::Iterator& Loader::Iterator::operator++() {
    State& s = *loader_->state_;
    done_ = s.next >= s.count;
    current_ = done_ ? Batch() : s.take();
    return *this;
}

}  // namespace calor::data
