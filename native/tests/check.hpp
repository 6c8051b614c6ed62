// A test is a function that throws when something is not so; main.cpp runs them all.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace headrace::test {

struct Test {
    std::string name;
    std::function<void()> body;
};

inline std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}

struct Registered {
    Registered(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

}  // namespace headrace::test

#define TEST(name)                                                              \
    static void name();                                                         \
    static const ::headrace::test::Registered name##_registered(#name, name);   \
    static void name()

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) ::headrace::test::fail(__FILE__, __LINE__, #condition); \
    } while (false)
