# Run by CTest with `cmake -P`; the variables come from CMakeLists.txt beside this. The first step that does not do what
# is expected ends the script with that step's command and output.
cmake_minimum_required(VERSION 3.25)

# step(TITLE EXIT code [OUTPUT regex] COMMAND ...): runs the command, which must end with that code and print that text.
function(step title)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXIT;OUTPUT" "COMMAND")
  message(STATUS "${title}")
  execute_process(COMMAND ${arg_COMMAND} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  list(JOIN arg_COMMAND " " command)
  if(NOT code STREQUAL arg_EXIT)
    set(wrong "ended with '${code}' instead of ${arg_EXIT}")
  elseif(arg_OUTPUT AND NOT output MATCHES "${arg_OUTPUT}")
    set(wrong "printed nothing that matches '${arg_OUTPUT}'")
  else()
    return()
  endif()
  # Not part of the error, whose text CMake would wrap.
  message("$ ${command}\n${output}")
  message(FATAL_ERROR "${title}: ${wrong}")
endfunction()

# configure(TITLE source build ...): with the compiler, flags and generator that built the libraries.
function(configure title source build)
  step("${title}" EXIT 0 COMMAND ${CMAKE_COMMAND} -S ${source} -B ${build} -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} ${ARGN})
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
# Nothing outside the work directory is read or written.
set(ENV{HOME} ${WORK_DIR}/home)
unset(ENV{XDG_DATA_HOME})
unset(ENV{DESTDIR})

# Moved after installing: nothing installed may depend on where it was put, or on the trees it came from.
step("install" EXIT 0 COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/staged)
set(prefix ${WORK_DIR}/prefix)
file(RENAME ${WORK_DIR}/staged ${prefix})
file(GLOB package_files ${prefix}/${LIB_DIR}/cmake/mc2/*.cmake ${prefix}/${LIB_DIR}/pkgconfig/*.pc)
if(NOT package_files)
  message(FATAL_ERROR "no CMake package files were installed under ${prefix}/${LIB_DIR}/cmake/mc2")
endif()
foreach(package_file IN LISTS package_files)
  file(READ ${package_file} content)
  foreach(tree IN ITEMS ${SOURCE_DIR} ${BUILD_DIR} ${WORK_DIR})
    string(FIND "${content}" "${tree}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${package_file} names ${tree}, where it was built from")
    endif()
  endforeach()
endforeach()

set(here ${SOURCE_DIR}/tests/install_consumer)
set(installed -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${prefix})
configure("configure a project that links every library" ${here}/every_target ${WORK_DIR}/every_target ${installed})
step("build it" EXIT 0 COMMAND ${CMAKE_COMMAND} --build ${WORK_DIR}/every_target)
step("run it" EXIT 0 OUTPUT "oneDNN" COMMAND ${WORK_DIR}/every_target/every_target)

configure("configure mc2 as a subdirectory" ${here}/every_target ${WORK_DIR}/subdirectory -DMC2_SOURCE_DIR=${SOURCE_DIR})

# The shared libraries, found after the move through the program's run path and their own.
set(program ${WORK_DIR}/host_program/host_program)
configure("configure the example with shared libraries" ${SOURCE_DIR}/docs/examples/host_program ${WORK_DIR}/host_program ${installed}
  -DBUILD_SHARED_LIBS=ON)
step("build the example" EXIT 0 COMMAND ${CMAKE_COMMAND} --build ${WORK_DIR}/host_program)
step("run the example without a plan" EXIT 0 OUTPUT "running uncut.*x2: uncut.*step 2: [0-9]+ us, every sum is right"
  COMMAND ${program})

# With b blocks of 512/b rows, either lane takes 20 + 256/b us a block, so (b + 1)(20 + 256/b) us in all: least for
# b = 4 among the divisors that 64 rows allow (444, 420 and 468 us for 2, 4 and 8).
set(mc2 ${prefix}/${BIN_DIR}/mc2)
set(shape --m 512 --n 256 --k 128 --ranks 2)
set(plan ${WORK_DIR}/plan.json)
step("plan with the installed program" EXIT 0
  COMMAND ${mc2} plan --model ${here}/model.json ${shape} --align 64 --out ${plan})
step("run the example with a plan for another machine" EXIT 2 OUTPUT "made for another machine.*--accept-other-machine"
  COMMAND ${program} --plan ${plan})
step("run the example with that plan all the same" EXIT 0 OUTPUT "x2: 4 x 128.*step 2: [0-9]+ us, every sum is right"
  COMMAND ${program} --plan ${plan} --accept-other-machine)

step("the example runs with the installed shared libraries" EXIT 0 OUTPUT "libmc2_store.so.0.1 => ${prefix}/${LIB_DIR}/libmc2_store.so.0.1"
  COMMAND ldd ${program})

# What the libraries show: public headers' names, and mc2_* alone of the C interface.
step("look at what the shared libraries show" EXIT 0 COMMAND /usr/bin/python3 ${SOURCE_DIR}/tests/install_consumer/symbols_test.py
  ${prefix}/${LIB_DIR})

set(c_example ${SOURCE_DIR}/docs/examples/c_program)
step("configure the C example" EXIT 0 COMMAND ${CMAKE_COMMAND} -S ${c_example} -B ${WORK_DIR}/c_program -G ${GENERATOR}
  -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_C_FLAGS=${CXX_FLAGS} ${installed})
step("build the C example" EXIT 0 COMMAND ${CMAKE_COMMAND} --build ${WORK_DIR}/c_program)
file(MAKE_DIRECTORY ${WORK_DIR}/by_make)
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIB_DIR}/pkgconfig)
find_program(make make REQUIRED)
step("build the C example with pkg-config" EXIT 0 COMMAND ${make} -C ${c_example} BUILD_DIR=${WORK_DIR}/by_make CC=${C_COMPILER} CFLAGS=-O1\ ${CXX_FLAGS})
step("pkg-config finds what a C++ library needs" EXIT 0 OUTPUT "-lmc2_embed.* -lmc2_client.* -lmc2_store.* -lmc2_planner"
  COMMAND pkg-config --libs mc2-embed)
step("run the C example without a plan" EXIT 0 OUTPUT "running uncut.*step 2: [0-9]+ us, every sum is right"
  COMMAND ${CMAKE_COMMAND} -E env MC2_STORE=${WORK_DIR}/none/plans.db ${WORK_DIR}/c_program/c_program)

set(ascend ${SOURCE_DIR}/docs/examples/ascend_tiling)
step("build the Ascend tiling with the exported plan" EXIT 0
  COMMAND ${make} -C ${ascend} BUILD_DIR=${WORK_DIR}/by_make PLAN=${plan} MC2=${mc2} CXX=${CXX_COMPILER})
step("take its tiling from the plan" EXIT 0 OUTPUT "4 x 128 rows, then 0 x 0 rows, of 512" COMMAND ${WORK_DIR}/by_make/ascend_tiling 512 256 128 2)
step("leave another shape whole" EXIT 0 OUTPUT "1 x 100 rows, then 0 x 0 rows, of 100" COMMAND ${WORK_DIR}/by_make/ascend_tiling 100 256 128 2)

set(link --link 1Gbit,20us)
set(store --store ${WORK_DIR}/plans.db)
step("run the example with a store that does not exist" EXIT 0 OUTPUT "no plan .*plans.db.*running uncut"
  COMMAND ${program} ${store} ${link})
# A busy host may spoil so short a profile; mc2 then says so, and it is measured again.
set(tune ${mc2} tune ${shape} ${link} ${store} --budget 2 --max-samples 5 --fresh)
foreach(attempt RANGE 1 20)
  execute_process(COMMAND ${tune} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT output MATCHES "measure again on a quieter machine")
    break()
  endif()
endforeach()
if(NOT code EQUAL 0)
  message("$ ${tune}\n${output}")
  message(FATAL_ERROR "tune with the installed program: ended with '${code}'")
endif()
step("run the example with the plan kept by tune" EXIT 0 OUTPUT "^matmul_all_reduce.*step 2: [0-9]+ us, every sum is right"
  COMMAND ${program} ${store} ${link})
step("run the C example with the plan kept by tune" EXIT 0 OUTPUT "from kept plans.*step 2: [0-9]+ us, every sum is right"
  COMMAND ${CMAKE_COMMAND} -E env MC2_STORE=${WORK_DIR}/plans.db ${WORK_DIR}/by_make/c_program 1Gbit,20us)
step("run it with everything disabled" EXIT 0 OUTPUT "1 blocks, .*mc2 is disabled.*every sum is right"
  COMMAND ${CMAKE_COMMAND} -E env MC2_DISABLE=1 ${WORK_DIR}/by_make/c_program 1Gbit,20us)
step("run the example on a link that was not tuned" EXIT 0 OUTPUT "no plan .*running uncut"
  COMMAND ${program} ${store} --link 3Gbit)

# Damage is no "no plan yet".
string(REPEAT "no database " 400 garbage)
file(WRITE ${WORK_DIR}/damaged.db "${garbage}")
step("refuse a damaged store" EXIT 2 OUTPUT "host_program: .*damaged.db" COMMAND ${program} --store ${WORK_DIR}/damaged.db ${link})
step("refuse a damaged store in C" EXIT 2 OUTPUT "c_program: mc2_context_create: .*damaged.db"
  COMMAND ${CMAKE_COMMAND} -E env MC2_STORE=${WORK_DIR}/damaged.db ${WORK_DIR}/by_make/c_program 1Gbit,20us)
step("do without a store where none can be" EXIT 0 OUTPUT "no plan .*/dev/null.*running uncut" COMMAND ${program} --store /dev/null ${link})
step("do without a store where none can be in C" EXIT 0 OUTPUT "no plan .*/dev/null.*running uncut"
  COMMAND ${CMAKE_COMMAND} -E env MC2_STORE=/dev/null ${WORK_DIR}/by_make/c_program 1Gbit,20us)

file(READ ${plan} whole)
string(LENGTH "${whole}" length)
math(EXPR half "${length} / 2")
string(SUBSTRING "${whole}" 0 ${half} part)
file(WRITE ${WORK_DIR}/truncated.json "${part}")
step("refuse a truncated plan" EXIT 2 OUTPUT "host_program: .*truncated.json" COMMAND ${program} --plan ${WORK_DIR}/truncated.json)
step("refuse a missing plan" EXIT 2 OUTPUT "cannot be opened" COMMAND ${program} --plan ${WORK_DIR}/none.json)
step("refuse an unknown option" EXIT 2 OUTPUT "legal: --plan" COMMAND ${program} --plna x)
step("refuse an unreadable link" EXIT 2 OUTPUT "host_program: " COMMAND ${program} --link fast)
file(REMOVE_RECURSE ${WORK_DIR}) # about 20 MB; kept where a step failed
