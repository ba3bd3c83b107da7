# find_package(vitro): what a plug-in with device models needs (docs/plugins.md). Set vitro_DIR to what `vitro --cmake-dir` prints.
get_filename_component(VITRO_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
if(NOT EXISTS "${VITRO_INCLUDE_DIR}")  # a checkout: headers lie beside their sources
  get_filename_component(VITRO_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
endif()

# vitro_plugin(name a.cpp ...) makes name.so. It links nothing of vitro: the process that loads it has it.
function(vitro_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_include_directories(${name} PRIVATE ${VITRO_INCLUDE_DIR})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE -ffp-contract=off)  # the same arithmetic wherever it is compiled
  set_target_properties(${name} PROPERTIES PREFIX "")
endfunction()
