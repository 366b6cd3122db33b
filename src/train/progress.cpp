#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "calor/train.h"

namespace calor::train {
namespace {

constexpr auto redraw_interval = std::chrono::milliseconds(100);

int columns_of(std::FILE* stream) {
    winsize size{};
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::string clock_text(double seconds) {
    const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 3.6e8) + 0.5);
    return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                     : fmt::format("{}:{:02}", s / 60, s % 60);
}

struct Progress::State {
    Options options;
    std::int64_t done = 0;
    int tenths = 0;  // reached by the lines printed so far, where there is no terminal
    bool terminal = false, open = false, finished = false;
    std::string status;
    std::chrono::steady_clock::time_point start, drawn;

    std::string line(int columns) const;
    void draw(bool last);
};

Progress::Progress(Options options) : state_(new State) {
    State& s = *state_;
    s.options = std::move(options);
    s.done = s.options.done;
    s.start = std::chrono::steady_clock::now();
    s.drawn = s.start - redraw_interval;
    s.terminal = isatty(fileno(s.options.stream)) != 0;
    s.tenths = s.options.total > 0 ? static_cast<int>(10 * s.done / s.options.total) : 0;
}

Progress::~Progress() {
    if (state_->open) std::fputc('\n', state_->options.stream);
    delete state_;
}

std::string Progress::line(int columns) const { return state_->line(columns); }

std::string Progress::State::line(int columns) const {
    const double elapsed = seconds_since(start);
    const auto steps = static_cast<double>(done - options.done);
    const double rate = elapsed > 0 ? steps / elapsed : 0;
    const std::int64_t total = std::max<std::int64_t>(options.total, done);
    const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
    const std::string left = rate > 0 ? clock_text(static_cast<double>(total - done) / rate) : std::string("?");
    const std::string head = fmt::format("{} {:3.0f} %", options.label, 100 * part);
    const std::string tail =
        fmt::format(" {}/{}  {:.0f} {}/s  {}  {}", done, total, rate * options.units_a_step, options.unit,
                    done >= total ? "in " + clock_text(elapsed) : "ETA " + left, status);
    if (columns <= 0) return head + tail;
    const int room = columns - 4 - static_cast<int>(head.size() + tail.size());
    std::string bar;
    if (room >= 8) {
        const auto width = static_cast<std::size_t>(std::min(room, 30));
        const auto full = static_cast<std::size_t>(static_cast<double>(width) * part);
        bar = " [" + std::string(full, '=') + std::string(width - full, ' ') + "]";
    }
    std::string whole = head + bar + tail;
    if (static_cast<int>(whole.size()) >= columns) whole.resize(static_cast<std::size_t>(columns - 1));
    return whole;
}

void Progress::State::draw(bool last) {
    if (terminal) {
        fmt::print(options.stream, "\r{}\x1b[K{}", line(columns_of(options.stream)), last ? "\n" : "");
        open = !last;
    } else {
        fmt::print(options.stream, "{}\n", line(0));
    }
    std::fflush(options.stream);
    drawn = std::chrono::steady_clock::now();
}

void Progress::update(std::int64_t done, const std::string& status) {
    State& s = *state_;
    s.done = done;
    s.status = status;
    if (s.terminal) {
        if (std::chrono::steady_clock::now() - s.drawn >= redraw_interval) s.draw(false);
        return;
    }
    const int tenths = s.options.total > 0 ? static_cast<int>(10 * done / s.options.total) : 0;
    if (tenths > s.tenths && done < s.options.total) s.draw(false);
    s.tenths = std::max(s.tenths, tenths);
}

void Progress::finish(const std::string& status) {
    if (std::exchange(state_->finished, true)) return;
    state_->status = status;
    state_->draw(true);
}

}  // namespace calor::train
