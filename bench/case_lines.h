// The file of results: one JSON line a measurement, whole on disk as soon as it is known, so that a run that was killed
// keeps what it had and can be continued. A call that never ends is ended by an alarm: it gets a line that says so, and
// the program starts anew behind it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace bench {

class Lines {
public:
    /// "-" is the terminal. `keep`: lines that are there stay, and has() knows their cases and passes.
    Lines(const std::string& path, bool keep);
    ~Lines();
    Lines(const Lines&) = delete;
    Lines& operator=(const Lines&) = delete;

    bool has(const std::string& id, const std::string& pass) const { return done_.contains({id, pass}); }
    /// Whether its line is an error's.
    bool failed(const std::string& id, const std::string& pass) const {
        const auto at = done_.find({id, pass});
        return at != done_.end() && at->second;
    }
    void say(const nlohmann::json& line);
    /// {"id", "pass", "error"}; long texts are cut.
    void say_error(const std::string& id, const std::string& pass, std::string text);

    /// From here until calm(), `seconds` may pass: then an error is written for this pass and the program starts anew.
    void alarm_in(unsigned seconds, const std::string& id, const std::string& pass);
    void calm();

    /// What restart() runs: this program's arguments. Only results in a file can be continued.
    void restart_with(int argc, char** argv);
    [[noreturn]] void restart();

private:
    int file_ = 1;
    std::map<std::pair<std::string, std::string>, bool> done_;
};

}  // namespace bench
