# find_package(vitro): what a plug-in with device models needs (docs/guide/plugins.md). Set vitro_DIR to what `vitro --cmake-dir` prints.
get_filename_component(VITRO_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
if(NOT EXISTS "${VITRO_INCLUDE_DIR}")  # a checkout: headers lie beside their sources
  get_filename_component(VITRO_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
endif()

# All that hw_models/plugin.hpp includes. Their text is the version of the contracts: sizes alone do not show a virtual
# function that moved, or a flag that became a count.
set(VITRO_CONTRACT_HEADERS
  engine/base/check.hpp engine/base/config.hpp engine/base/exponential.hpp engine/base/rng.hpp engine/base/units.hpp
  hw_models/callback.hpp hw_models/compute.hpp hw_models/context.hpp hw_models/dram.hpp hw_models/initiator.hpp hw_models/params.hpp
  hw_models/plugin.hpp hw_models/registry.hpp hw_models/storage.hpp)
set(VITRO_CONTRACTS "")
foreach(header ${VITRO_CONTRACT_HEADERS})
  file(SHA256 "${VITRO_INCLUDE_DIR}/${header}" hash)
  string(SHA256 VITRO_CONTRACTS "${VITRO_CONTRACTS}${hash}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${VITRO_INCLUDE_DIR}/${header}")
endforeach()
string(SUBSTRING "${VITRO_CONTRACTS}" 0 12 VITRO_CONTRACTS)

# vitro_plugin(name a.cpp ...) makes name.so. It links nothing of vitro: the process that loads it has it.
function(vitro_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_include_directories(${name} PRIVATE ${VITRO_INCLUDE_DIR})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE -ffp-contract=off)  # the same arithmetic wherever it is compiled
  target_compile_definitions(${name} PRIVATE VITRO_CONTRACTS="${VITRO_CONTRACTS}")
  set_target_properties(${name} PROPERTIES PREFIX "")
endfunction()

# vitro_tlm_plugin(name a.cpp ...) makes name.so of SystemC modules (hw_models/tlm/plugin.hpp). It does not link SystemC either: there
# has to be one kernel, and that is the one of the process.
function(vitro_tlm_plugin name)
  find_path(SystemC_INCLUDE_DIR systemc REQUIRED)
  add_library(${name} MODULE ${ARGN})
  target_include_directories(${name} PRIVATE ${VITRO_INCLUDE_DIR} ${SystemC_INCLUDE_DIR})
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_compile_options(${name} PRIVATE -ffp-contract=off)
  target_compile_definitions(${name} PRIVATE SC_CPLUSPLUS=201703L)  # as the library was built: else it does not load
  set_target_properties(${name} PROPERTIES PREFIX "")
endfunction()
