# The Hexagon worker and the packet counter of qemu-hexagon, where their tools are there. Sets VITRO_HEXAGON_WORKER and
# VITRO_HEXAGON_COUNTER to the paths of the two, or to nothing; the target hexagon_worker builds both. With tests also
# the target hexagon_phone: the worker with the phone's layer of the operating system.
set(VITRO_HEXAGON_WORKER "")
set(VITRO_HEXAGON_COUNTER "")
find_program(HEXAGON_CXX clang++-19)
find_program(HEXAGON_LD ld.lld-19)
find_program(QEMU_HEXAGON qemu-hexagon)
if(CMAKE_CROSSCOMPILING OR NOT HEXAGON_CXX OR NOT HEXAGON_LD OR NOT QEMU_HEXAGON)
  return()
endif()

set(source ${PROJECT_SOURCE_DIR}/engine/kernels/hexagon)
set(folder ${PROJECT_BINARY_DIR}/hexagon)
file(MAKE_DIRECTORY ${folder})
# v66: what qemu-hexagon 7.2 runs. -fno-builtin keeps loops from becoming calls of a C library that is not there.
set(flags --target=hexagon-unknown-linux-musl -mv66 -mhvx -mhvx-length=128B -std=c++20 -O2 -ffreestanding -fno-builtin -fno-exceptions
  -fno-rtti -fno-threadsafe-statics -ffp-contract=off -Wall -Wextra -I${PROJECT_SOURCE_DIR})
file(GLOB headers CONFIGURE_DEPENDS ${source}/*.h ${source}/*.hpp ${source}/hvx_worker/*.hpp ${PROJECT_SOURCE_DIR}/engine/base/*_plan.hpp
     ${PROJECT_SOURCE_DIR}/engine/base/exponential.hpp)
# Source by source, so that builds with other presets take them from the compiler cache.
function(hexagon_object file folder)
  get_filename_component(name ${file} NAME_WE)
  add_custom_command(OUTPUT ${folder}/${name}.o
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${HEXAGON_CXX} ${flags} ${ARGN} -c ${file} -o ${folder}/${name}.o
    DEPENDS ${file} ${headers} VERBATIM)
endfunction()
function(hexagon_program path)
  add_custom_command(OUTPUT ${path}
    COMMAND ${HEXAGON_CXX} --target=hexagon-unknown-linux-musl -nostdlib -static -fuse-ld=lld ${ARGN} -o ${path} DEPENDS ${ARGN} VERBATIM)
endfunction()
# In these, window scheduling, which clang 19 tries on loops that it can not pipeline, takes most of the time and changes no instruction.
set(without_windows attention_work rounded_kernels)
set(objects)
foreach(file add_kernels add_work attention_kernels attention_work block_kernels block_work dma freestanding half_kernels
        layout_kernels lut_kernels lut_work main matrix_unit operators matmul outlier_kernels rounded_kernels row_kernels scaled_kernels
        stage_threads stage_work stages strip_kernels system table_kernels tile_kernels wide_kernels)
  if(file IN_LIST without_windows)
    hexagon_object(${source}/hvx_worker/${file}.cpp ${folder} -mllvm -window-sched=off)
  else()
    hexagon_object(${source}/hvx_worker/${file}.cpp ${folder})
  endif()
  list(APPEND objects ${folder}/${file}.o)
endforeach()
hexagon_program(${folder}/vitro-hexagon-worker ${objects})

# Built without the sanitizers of the rest: it lives in the emulator's process.
set(plug_in ${PROJECT_SOURCE_DIR}/tools/hexagon)
set(native -fPIC -O3 -ffp-contract=off -Wall -Wextra -I${PROJECT_SOURCE_DIR})
add_custom_command(OUTPUT ${folder}/libvitro_packet_counts.so
  COMMAND ${CMAKE_CXX_COMPILER} ${native} -std=c++20 -fno-exceptions -fno-rtti -c ${plug_in}/matrix_unit.cpp
          -o ${folder}/plug_in_unit.o
  COMMAND ${CMAKE_C_COMPILER} -shared ${native} ${plug_in}/packet_counts.c ${folder}/plug_in_unit.o -o ${folder}/libvitro_packet_counts.so
  DEPENDS ${plug_in}/packet_counts.c ${plug_in}/matrix_unit.cpp ${source}/packet_counts.h ${source}/matrix_call.h ${source}/hmx.hpp
          ${source}/half.hpp VERBATIM)
add_custom_target(hexagon_worker DEPENDS ${folder}/vitro-hexagon-worker ${folder}/libvitro_packet_counts.so)
set(VITRO_HEXAGON_WORKER ${folder}/vitro-hexagon-worker)
set(VITRO_HEXAGON_COUNTER ${folder}/libvitro_packet_counts.so)

# The phone's build, but for one thing: QuRT and FastRPC are not there, so functions of their names stand in.
if(VITRO_TESTS)
  set(phone ${PROJECT_SOURCE_DIR}/tests/engine/kernels/hexagon/phone)
  file(GLOB headers CONFIGURE_DEPENDS ${source}/*.h ${source}/*.hpp ${source}/hvx_worker/*.hpp ${PROJECT_SOURCE_DIR}/engine/base/*_plan.hpp
       ${phone}/*.h ${phone}/*.hpp)
  hexagon_object(${source}/hvx_worker/system_qurt.cpp ${folder} -I${phone})
  hexagon_object(${phone}/phone.cpp ${folder} -I${phone})
  list(REMOVE_ITEM objects ${folder}/system.o)
  hexagon_program(${folder}/vitro-hexagon-phone ${objects} ${folder}/system_qurt.o ${folder}/phone.o)
  add_custom_target(hexagon_phone DEPENDS ${folder}/vitro-hexagon-phone)
endif()
