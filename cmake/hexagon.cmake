# The Hexagon worker and the packet counter of qemu-hexagon, where their tools are there. Sets VITRO_HEXAGON_WORKER and
# VITRO_HEXAGON_COUNTER to the paths of the two, or to nothing; the target hexagon_worker builds both.
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
file(GLOB headers CONFIGURE_DEPENDS ${source}/*.hpp ${source}/hvx_worker/*.hpp ${PROJECT_SOURCE_DIR}/engine/base/stage_plan.hpp)
# Source by source, so that builds with other presets take them from the compiler cache.
set(objects)
foreach(file attention_kernels dma dot_kernels half_kernels layout_kernels lut_kernels main operators matmul rounded_kernels row_kernels
        scaled_kernels
        stage_work stages strip_kernels system table_kernels tile_kernels wide_kernels)
  add_custom_command(OUTPUT ${folder}/${file}.o
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${HEXAGON_CXX} ${flags} -c ${source}/hvx_worker/${file}.cpp -o ${folder}/${file}.o
    DEPENDS ${source}/hvx_worker/${file}.cpp ${headers} VERBATIM)
  list(APPEND objects ${folder}/${file}.o)
endforeach()
add_custom_command(OUTPUT ${folder}/vitro-hexagon-worker
  COMMAND ${HEXAGON_CXX} --target=hexagon-unknown-linux-musl -nostdlib -static -fuse-ld=lld ${objects} -o ${folder}/vitro-hexagon-worker
  DEPENDS ${objects} VERBATIM)

# Built without the sanitizers of the rest: it lives in the emulator's process.
add_custom_command(OUTPUT ${folder}/libvitro_packet_counts.so
  COMMAND ${CMAKE_C_COMPILER} -shared -fPIC -O2 -Wall -Wextra -I${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tools/hexagon/packet_counts.c
          -o ${folder}/libvitro_packet_counts.so
  DEPENDS ${PROJECT_SOURCE_DIR}/tools/hexagon/packet_counts.c ${PROJECT_SOURCE_DIR}/engine/kernels/hexagon/packet_counts.h VERBATIM)
add_custom_target(hexagon_worker DEPENDS ${folder}/vitro-hexagon-worker ${folder}/libvitro_packet_counts.so)
set(VITRO_HEXAGON_WORKER ${folder}/vitro-hexagon-worker)
set(VITRO_HEXAGON_COUNTER ${folder}/libvitro_packet_counts.so)
