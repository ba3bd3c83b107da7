// The instruction set of the float stages as a phone would run them: qfloat up to V75, with VITRO_IEEE_FLOATS IEEE floats as V79 does.
// What is compiled with it is never linked: the emulator has neither, so its price is the packets of its loops (docs/design/hexagon.md).
// Each family of loops has a source of its own, so that a changed one is priced without compiling the others.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/hvx_float.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_ieee_floats.hpp"

namespace vitro::hexagon {

#ifdef VITRO_IEEE_FLOATS
using Isa = HvxIeeeFloats;
#else
using Isa = Hvx;
#endif

}  // namespace vitro::hexagon
