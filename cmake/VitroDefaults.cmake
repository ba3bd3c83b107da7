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
# g++ collects garbage while it compiles, which takes an eighth of its time. Not below 1 GiB: a unit needs up to 240 MiB more.
target_compile_options(vitro_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)
# -ffp-contract=off: a kernel's numeric contract says where a fused multiply-add stands; the compiler may not add more,
# or the same variant would give different bits on another target. EIGEN_MPL2_ONLY keeps the licence simple.
# g++ 12 reports string operations that can not happen (-Wrestrict, its bug 105651); clang meets deprecated parts of its library there.
target_compile_options(vitro_options INTERFACE $<IF:$<CXX_COMPILER_ID:GNU>,-Wno-restrict,-Wno-deprecated-declarations>
                       -Wall -Wextra -Wpedantic -Wno-missing-field-initializers -ffp-contract=off)
target_compile_definitions(vitro_options INTERFACE EIGEN_MPL2_ONLY)
target_include_directories(vitro_options INTERFACE ${PROJECT_SOURCE_DIR})
target_link_libraries(vitro_options INTERFACE vitro_third_party Threads::Threads)
if(VITRO_SANITIZE)
  target_compile_options(vitro_options INTERFACE -fsanitize=${VITRO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(vitro_options INTERFACE -fsanitize=${VITRO_SANITIZE})
endif()
if(VITRO_COVERAGE)
  # Counters that can lie in a mapped file: what a child process ran counts, too, however it ended.
  set(counted -fprofile-instr-generate -fcoverage-mapping)
  target_compile_options(vitro_options INTERFACE ${counted} "SHELL:-mllvm -runtime-counter-relocation")
  target_link_options(vitro_options INTERFACE ${counted})
endif()

# Several sources of a target are compiled as one, at most VITRO_TOGETHER at a time: the headers and templates
# that they share are compiled once.
# A source that defines a name which another one defines, too, is named under BESIDE: these are joined with one another, apart from the
# rest. APART names those that clash with these as well; they are compiled alone, like sources with options of their own.
# Includes are relative to the project, so that a compiler cache serves every checkout, which it does not for CMake's own unity builds.
# Without VITRO_UNITY every source is compiled alone, which shows a missing #include.
option(VITRO_UNITY "Compile several sources of a target together" ON)
set(VITRO_TOGETHER 16)
function(vitro_unity name)
  if(VITRO_UNITY)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL vitro_join ${name} ${ARGN})")  # when options of sources are known
  endif()
endfunction()

function(vitro_join name)
  cmake_parse_arguments(ARG "" "" "APART;BESIDE" ${ARGN})
  set(together "")
  set(beside "")
  get_target_property(sources ${name} SOURCES)
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(NOT source MATCHES "\\.cpp$" OR IS_ABSOLUTE ${source} OR source IN_LIST ARG_APART OR options OR definitions)
      continue()
    elseif(source IN_LIST ARG_BESIDE)
      list(APPEND beside ${source})
    else()
      list(APPEND together ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM sources ${together} ${beside})
  vitro_units(${name} units ${together})
  vitro_units(${name}_beside more ${beside})
  set_property(TARGET ${name} PROPERTY SOURCES ${sources} ${units} ${more})
endfunction()

# -> `units`: files NAME_0.cpp, NAME_1.cpp, ..., over which the sources are spread evenly.
function(vitro_units name units)
  list(LENGTH ARGN left)
  math(EXPR number "(${left} + ${VITRO_TOGETHER} - 1) / ${VITRO_TOGETHER}")
  set(files "")
  while(number GREATER 0)
    math(EXPR share "(${left} + ${number} - 1) / ${number}")
    math(EXPR number "${number} - 1")
    math(EXPR left "${left} - ${share}")
    list(SUBLIST ARGN 0 ${share} taken)
    list(REMOVE_ITEM ARGN ${taken})
    set(includes "")
    foreach(source ${taken})
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      string(APPEND includes "#include \"${path}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${includes}" @ONLY)
    list(APPEND files ${file})
  endwhile()
  set(${units} ${files} PARENT_SCOPE)
endfunction()

# Headers that most sources include are compiled once for all targets with the same options. clang reads of them what a source needs (0.2 s
# where it took 3). g++ reads them whole (0.6 s where it took 1.6, and each rare one makes it more): it has the first list only.
set(VITRO_COMMON <algorithm> <chrono> <cmath> <coroutine> <deque> <functional> <map> <memory> <optional> <set> <span> <string> <variant>
                 <vector>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND VITRO_COMMON <array> <filesystem> <mutex> <numeric> <string_view> <unordered_map> <utility> <fmt/format.h>
                           <nlohmann/json.hpp>)
  # Without the time of each file, the compiler cache can keep what was made of them.
  target_compile_options(vitro_options INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
endif()

# When all options are known. The first target with these options compiles the headers; sources with options of their own do without.
function(vitro_precompile name)
  cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL vitro_precompile_now ${name})")
endfunction()

function(vitro_precompile_now name)
  get_target_property(options ${name} COMPILE_OPTIONS)
  list(REMOVE_ITEM options options-NOTFOUND)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    list(REMOVE_ITEM options -fno-semantic-interposition)  # what it does anyway
  endif()
  string(MAKE_C_IDENTIFIER "${options}" kind)
  get_property(owner GLOBAL PROPERTY VITRO_PRECOMPILED_${kind})
  if(owner)
    target_precompile_headers(${name} REUSE_FROM ${owner})
  else()
    set_property(GLOBAL PROPERTY VITRO_PRECOMPILED_${kind} ${name})
    target_precompile_headers(${name} PRIVATE ${VITRO_COMMON})
  endif()
  get_target_property(folder ${name} SOURCE_DIR)
  get_target_property(sources ${name} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    get_source_file_property(own ${source} TARGET_DIRECTORY ${name} COMPILE_OPTIONS)
    if(own)
      set_source_files_properties(${source} TARGET_DIRECTORY ${name} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# vitro_library(name SOURCES a.cpp b.cpp ... [APART b.cpp ...] [BESIDE c.cpp ...] [LINK other ...] [COLD] [LIGHT])
# COLD: reads files or prints, and takes no time that counts. It is compiled with -O1, in two thirds of the time.
# COLD and LIGHT ones are not optimised with sanitizers: the optimiser takes several times as long for their checks. LIGHT: tests spend
# little time in it, for a release it is optimised.
function(vitro_library name)
  cmake_parse_arguments(ARG "COLD;LIGHT" "" "SOURCES;APART;BESIDE;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  vitro_unity(${name} APART ${ARG_APART} BESIDE ${ARG_BESIDE})
  vitro_precompile(${name})
  target_link_libraries(${name} PUBLIC vitro_options ${ARG_LINK})
  if(VITRO_SANITIZE AND (ARG_COLD OR ARG_LIGHT))
    target_compile_options(${name} PRIVATE -O0)
  elseif(ARG_COLD)
    target_compile_options(${name} PRIVATE -O1)
  endif()
endfunction()
