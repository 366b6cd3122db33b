// Networks: modules, layers, initialisers, losses.
#pragma once

#include "calor/nn/activation.h"
#include "calor/nn/conv.h"
#include "calor/nn/dropout.h"
#include "calor/nn/fields.h"
#include "calor/nn/init.h"
#include "calor/nn/linear.h"
#include "calor/nn/loss.h"
#include "calor/nn/module.h"
#include "calor/nn/norm.h"
#include "calor/nn/parameter.h"
#include "calor/nn/pool.h"
#include "calor/nn/sequential.h"
