// What most tests include anyway, read once. Tests still include what they use.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "calor/calor.h"
