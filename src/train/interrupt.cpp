#include <csignal>

#include "calor/train.h"

namespace calor::train {
namespace {

volatile std::sig_atomic_t signals = 0;

/// The first signal asks, the second one ends the process the usual way.
extern "C" void on_signal(int number) {
    signals = signals + 1;
    if (signals > 1) {
        std::signal(number, SIG_DFL);
        std::raise(number);
    }
}

}  // namespace

struct InterruptGuard::Saved {
    struct sigaction interrupt {
    }, terminate{};
};

InterruptGuard::InterruptGuard() : saved_(new Saved) {
    signals = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &saved_->interrupt);
    sigaction(SIGTERM, &action, &saved_->terminate);
}

InterruptGuard::~InterruptGuard() {
    sigaction(SIGINT, &saved_->interrupt, nullptr);
    sigaction(SIGTERM, &saved_->terminate, nullptr);
    delete saved_;
}

bool InterruptGuard::requested() const { return signals > 0; }

}  // namespace calor::train
