// The program as its user sees it: output, exit statuses, interruption and exact resumption.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "calor/error.h"
#include "sanitized.h"

namespace fs = std::filesystem;

namespace {

const std::string program = CALOR_PROGRAM;
const std::string root = CALOR_SOURCE_DIR;

struct Outcome {
    int status = -1;
    std::string text;  // both streams
};

Outcome run(const std::string& arguments) {
    Outcome o;
    std::FILE* pipe = popen((program + " " + arguments + " 2>&1").c_str(), "r");
    char block[4096];
    for (std::size_t n = fread(block, 1, sizeof block, pipe); n > 0; n = fread(block, 1, sizeof block, pipe))
        o.text.append(block, n);
    const int raw = pclose(pipe);
    o.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    return o;
}

std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

class Program : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("calor-cli-" + std::to_string(::getpid()));
        fs::create_directories(folder_);
        make_small_mnist();
    }
    void TearDown() override { fs::remove_all(folder_); }

    /// The first images of the real set, so that a run takes a second.
    void make_small_mnist() {
        fs::create_directories(folder_ / "data");
        for (const char* part : {"train", "t10k"}) {
            const std::string images = part + std::string("-images-idx3-ubyte"),
                              labels = part + std::string("-labels-idx1-ubyte");
            const int count = part == std::string("t10k") ? 100 : calor::testing::sanitized() ? 160 : 640;
            cut(images, 16, count, count * 784);
            cut(labels, 8, count, count);
        }
    }
    void cut(const std::string& name, std::size_t header, int count, int bytes) {
        const std::string command = "zcat " + root + "/data/mnist/" + name + ".gz | head -c " +
                                    std::to_string(header + static_cast<std::size_t>(bytes));
        std::FILE* pipe = popen(command.c_str(), "r");
        std::string all(header + static_cast<std::size_t>(bytes), '\0');
        ASSERT_EQ(fread(all.data(), 1, all.size(), pipe), all.size());
        pclose(pipe);
        for (int i = 0; i < 4; ++i)
            all[static_cast<std::size_t>(4 + i)] = static_cast<char>((count >> (24 - 8 * i)) & 0xff);
        std::ofstream(folder_ / "data" / name, std::ios::binary) << all;
    }
    std::string train(const std::string& more) const {
        return "train mnist --data " + (folder_ / "data").string() + " " + more;
    }
    std::string file(const std::string& name) const { return (folder_ / name).string(); }

    fs::path folder_;
};

void expect_usage_error(const std::string& arguments) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 2) << arguments << "\n" << o.text;
    EXPECT_EQ(std::count(o.text.begin(), o.text.end(), '\n'), 1) << arguments << "\n" << o.text;
    EXPECT_EQ(o.text.rfind("calor: ", 0), 0U) << o.text;
}

TEST_F(Program, RefusesWrongArgumentsInOneLine) {
    for (const char* arguments :
         {"", "fly", "train", "train cifar", "train mnist --epochs 0", "train mnist --epochs x",
          "train mnist --batch-size -1", "train mnist --learning-rate nan?", "train mnist --resume /no/such/file",
          "train mnist --out /no/such/folder/x", "train mnist --threads 0", "train mnist --unknown", "predict",
          "predict model", "explain no/such-code", "devices extra"}) {
        expect_usage_error(arguments);
    }
}

TEST_F(Program, HelpAndVersionAndDevices) {
    EXPECT_EQ(run("--help").status, 0);
    EXPECT_EQ(run("train mnist --help").status, 0);
    EXPECT_EQ(run("--version").text, "calor " CALOR_VERSION "\n");
    const Outcome devices = run("devices");
    EXPECT_EQ(devices.status, 0);
    EXPECT_EQ(devices.text.rfind("cpu:0", 0), 0U) << devices.text;
}

TEST_F(Program, ExplainsEveryCode) {
    const auto all = nlohmann::json::parse(run("explain --json").text);
    EXPECT_EQ(all.size(), calor::error_catalogue().size());
    for (std::size_t i = 0; i < all.size(); i += calor::testing::sanitized() ? 20 : 1) {
        const std::string code = all[i].at("code"), meaning = all[i].at("meaning");
        EXPECT_NE(run("explain " + code).text.find(meaning), std::string::npos) << code;
    }
    EXPECT_NE(run("explain shape/broadcas").text.find("did you mean shape/broadcast?"), std::string::npos);
}

TEST_F(Program, ErrorPageIsCurrent) {
    EXPECT_EQ(read(root + "/docs/errors.md"), run("explain --markdown").text)
        << "run: calor explain --markdown > docs/errors.md";
}

TEST_F(Program, TrainsTheSameTwiceAndPredicts) {
    const Outcome first = run(train("--epochs 2 --seed 5 --out " + file("a.safetensors")));
    ASSERT_EQ(first.status, 0) << first.text;
    const Outcome second = run(train("--epochs 2 --seed 5 --out " + file("b.safetensors")));
    ASSERT_EQ(second.status, 0) << second.text;
    EXPECT_TRUE(read(file("a.safetensors")) == read(file("b.safetensors"))) << "the weights differ";
    EXPECT_FALSE(fs::exists(file("a.safetensors.checkpoint")));
    std::string images;
    int count = 0;
    for (const auto& entry : fs::directory_iterator(root + "/data/mnist/samples")) {
        if (entry.path().extension() != ".png") continue;
        images += " " + entry.path().string();
        ++count;
    }
    const Outcome predicted = run("predict " + file("a.safetensors") + images);
    EXPECT_EQ(predicted.status, 0) << predicted.text;
    EXPECT_EQ(std::count(predicted.text.begin(), predicted.text.end(), '\n'), count);
    EXPECT_NE(predicted.text.find('%'), std::string::npos);
}

TEST_F(Program, FailsClearlyOnBadFiles) {
    std::ofstream(file("bad.safetensors")) << "not a model";
    const Outcome o = run("predict " + file("bad.safetensors") + " x.png");
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(o.text.find("hint: "), std::string::npos) << o.text;
    EXPECT_EQ(run("predict /no/such/model x.png").status, 1);
    EXPECT_EQ(run("train mnist --data " + folder_.string()).status, 1);
}

/// Starts the program, waits until its log shows `sign`, sends SIGINT; the exit status.
int interrupt_after(const std::string& arguments, const std::string& sign, const std::string& log) {
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", ("exec " + program + " " + arguments + " > " + log + " 2>&1").c_str(), nullptr);
        _exit(127);
    }
    int raw = 0;
    while (read(log).find(sign) == std::string::npos) {
        if (waitpid(child, &raw, WNOHANG) == child) return WEXITSTATUS(raw);  // it ended first
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    kill(child, SIGINT);
    waitpid(child, &raw, 0);
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

TEST_F(Program, ResumesToTheSameWeights) {
    const std::string options = "--epochs 10 --batch-size 32 --seed 9 --threads 1 --out ";
    ASSERT_EQ(run(train(options + file("whole"))).status, 0);
    ASSERT_EQ(interrupt_after(train(options + file("part")), "epoch 1/10", file("log")), 130) << read(file("log"));
    EXPECT_NE(read(file("log")).find("resume with: calor train mnist --resume"), std::string::npos)
        << read(file("log"));
    // Interrupted once more on the way.
    const std::string resume = "--resume " + file("part.checkpoint") + " --threads 1 --out " + file("part");
    ASSERT_EQ(interrupt_after(train(resume), "epoch 4/10", file("log")), 130) << read(file("log"));
    const Outcome rest = run(train(resume));
    ASSERT_EQ(rest.status, 0) << rest.text;
    EXPECT_TRUE(read(file("part")) == read(file("whole"))) << "the weights differ";
}

}  // namespace
