// Networks: modules, layers, initialisers, losses.
#pragma once

#include "calor/nn/fields.h"
#include "calor/nn/loss.h"
#include "calor/nn/module.h"
#include "calor/nn/parameter.h"
