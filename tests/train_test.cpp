// Progress lines, running means, interruption.
#include "calor/train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

namespace train = calor::train;

namespace {

/// What a progress prints into a file, which is no terminal.
template <class F> std::string printed(train::Progress::Options options, const F& body) {
    std::FILE* file = std::tmpfile();
    options.stream = file;
    {
        train::Progress progress(options);
        body(progress);
    }
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
    std::fclose(file);
    return text;
}

TEST(Progress, PrintsPlainLinesAtEveryTenth) {
    const std::string text =
        printed({.label = "epoch 1/3", .total = 1000, .unit = "images", .units_a_step = 64}, [](auto& p) {
            for (int i = 1; i <= 1000; ++i) p.update(i, "loss 0.5");
            p.finish("loss 0.5");
        });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
    EXPECT_EQ(text.find('\r'), std::string::npos);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("epoch 1/3  10 % 100/1000"), std::string::npos) << text;
    EXPECT_NE(text.find("epoch 1/3 100 % 1000/1000"), std::string::npos) << text;
    EXPECT_NE(text.find("loss 0.5"), std::string::npos);
}

TEST(Progress, FitsTheWidth) {
    train::Progress progress({.label = "epoch 2/3", .total = 469, .unit = "images", .units_a_step = 128});
    for (const int columns : {20, 40, 80, 132, 300})
        EXPECT_LT(static_cast<int>(progress.line(columns).size()), columns);
    EXPECT_NE(progress.line(132).find('['), std::string::npos);
    EXPECT_EQ(progress.line(0).find('['), std::string::npos);
}

TEST(Progress, ResumesInTheMiddleAndBearsNoTotal) {
    EXPECT_NE(printed({.label = "x", .total = 10, .done = 9},
                      [](auto& p) {
                          p.update(10, "");
                          p.finish("");
                      })
                  .find("10/10"),
              std::string::npos);
    EXPECT_NE(printed({.label = "x"}, [](auto& p) { p.finish("done"); }).find("done"), std::string::npos);
}

TEST(Clock, ReadsAsMinutesAndHours) {
    EXPECT_EQ(train::clock_text(0), "0:00");
    EXPECT_EQ(train::clock_text(65), "1:05");
    EXPECT_EQ(train::clock_text(3605), "1:00:05");
    EXPECT_EQ(train::clock_text(-1), "0:00");
}

TEST(Mean, IsWeightedAndDoesNotStall) {
    train::Mean mean;
    EXPECT_EQ(mean.value(), 0);
    mean.add(1, 3);
    mean.add(5, 1);
    EXPECT_EQ(mean.value(), 2);
    mean.reset();
    for (int i = 0; i < 4097; ++i) mean.add(1);
    EXPECT_EQ(mean.value(), 1);
}

TEST(Interrupt, SetsAFlagAndRestoresTheHandler) {
    const auto before = std::signal(SIGINT, SIG_DFL);
    std::signal(SIGINT, before);
    {
        const train::InterruptGuard guard;
        EXPECT_FALSE(guard.requested());
        std::raise(SIGINT);
        EXPECT_TRUE(guard.requested());
    }
    const train::InterruptGuard fresh;
    EXPECT_FALSE(fresh.requested());
}

}  // namespace
