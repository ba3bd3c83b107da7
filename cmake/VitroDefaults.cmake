# Compiler settings and the two helpers that every folder's CMakeLists.txt uses.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

find_package(Threads REQUIRED)
if(CMAKE_CROSSCOMPILING)
  # Header-only use of the build machine's packages: only these folders are exposed, never /usr/include as a whole.
  set(VITRO_HEADERS ${PROJECT_BINARY_DIR}/headers)
  file(MAKE_DIRECTORY ${VITRO_HEADERS})
  foreach(package boost fmt nlohmann CLI)
    file(CREATE_LINK /usr/include/${package} ${VITRO_HEADERS}/${package} SYMBOLIC)
  endforeach()
  file(CREATE_LINK /usr/include/eigen3/Eigen ${VITRO_HEADERS}/Eigen SYMBOLIC)
  include_directories(SYSTEM ${VITRO_HEADERS})
  add_compile_definitions(FMT_HEADER_ONLY)
  add_library(vitro_third_party INTERFACE)
else()
  find_package(fmt REQUIRED)
  find_package(Eigen3 REQUIRED NO_MODULE)
  find_package(Boost 1.74 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  add_library(vitro_third_party INTERFACE)
  target_link_libraries(vitro_third_party INTERFACE fmt::fmt Eigen3::Eigen Boost::boost nlohmann_json::nlohmann_json)
endif()

add_library(vitro_options INTERFACE)
# -ffp-contract=off: a kernel's numeric contract says where a fused multiply-add stands; the compiler may not add more,
# or the same variant would give different bits on another target. EIGEN_MPL2_ONLY keeps the licence simple.
# g++ 12 reports string operations that can not happen (-Wrestrict, its bug 105651).
target_compile_options(vitro_options INTERFACE -Wno-restrict -Wall -Wextra -Wpedantic -Wno-missing-field-initializers -ffp-contract=off)
target_compile_definitions(vitro_options INTERFACE EIGEN_MPL2_ONLY)
target_include_directories(vitro_options INTERFACE ${PROJECT_SOURCE_DIR})
target_link_libraries(vitro_options INTERFACE vitro_third_party Threads::Threads)
if(VITRO_SANITIZE)
  target_compile_options(vitro_options INTERFACE -fsanitize=${VITRO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(vitro_options INTERFACE -fsanitize=${VITRO_SANITIZE})
endif()

# Unity builds compile up to eight sources of a target together: the headers and templates they share are compiled once.
# APART names those that are compiled alone, because they define a name that another source of the target defines, too.
# Without VITRO_UNITY every source is compiled alone, which shows a missing #include: so does the preset aarch64.
option(VITRO_UNITY "Compile several sources of a target together" ON)
function(vitro_unity name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${VITRO_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# vitro_library(name SOURCES a.cpp b.cpp ... [APART b.cpp ...] [LINK other ...])
function(vitro_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  vitro_unity(${name} ${ARG_APART})
  target_link_libraries(${name} PUBLIC vitro_options ${ARG_LINK})
endfunction()
