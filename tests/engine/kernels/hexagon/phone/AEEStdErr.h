// Stands in for the Hexagon SDK's header of this name: the errors that engine/kernels/hexagon/hvx_worker/system_qurt.cpp returns, on a DSP.
#pragma once
enum {
  AEE_SUCCESS = 0,
  AEE_ENOMEMORY = static_cast<int>(0x80000402),
  AEE_EVERSIONNOTSUPPORT = static_cast<int>(0x80000404),
  AEE_EBADPARM = static_cast<int>(0x8000040e),
  AEE_EUNSUPPORTED = static_cast<int>(0x80000414),
  AEE_EITEMBUSY = static_cast<int>(0x80000420),
  AEE_EMMAP = static_cast<int>(0x80000465),
};
