# Debian packages of the program, the libraries and the Python module. `./dev package` makes them with CPack. The preset `package`
# configures the build for them: prefix /usr, the system Python's folder, and no CUDA unless it is asked for.
install(FILES ${CMAKE_CURRENT_LIST_DIR}/mc2.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/mc2.sysusers DESTINATION lib/sysusers.d RENAME mc2.conf COMPONENT program)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/serve.json DESTINATION /etc/mc2 COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mc2 RENAME copyright COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libmc2-dev RENAME copyright COMPONENT libraries)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/python3-mc2 RENAME copyright COMPONENT python
  EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_NAME mc2)
set(CPACK_PACKAGE_CONTACT "the mc2 developers <mc2@localhost>")
set(CPACK_COMPONENTS_ALL program libraries python)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/planner ${CMAKE_BINARY_DIR}/executor)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "plans and tunes overlapped matmul + collective operators
 The program mc2: it measures a matmul and a collective on this machine, cuts
 them into blocks that overlap, races the cuts, and keeps and serves the plans.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME mc2)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "openmpi-bin, openssh-client")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA)
foreach(script conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/mc2/${script})
endforeach()

set(CPACK_COMPONENT_LIBRARIES_DESCRIPTION "C++ and C libraries of mc2, with headers
 For programs that plan, keep, find and run plans of mc2 themselves: shared and
 static libraries, CMake's and pkg-config's descriptions.")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME libmc2-dev)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libdevel)

set(CPACK_COMPONENT_PYTHON_DESCRIPTION "Python module of mc2
 import mc2 plans, tunes and runs; mc2.torch works on PyTorch's process groups.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-mc2)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/python3-mc2/postinst
  ${CMAKE_CURRENT_LIST_DIR}/debian/python3-mc2/prerm)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_VERSION_MINOR)
  math(EXPR next_minor "${Python3_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${next_minor})")
endif()
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS python3-numpy)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS python3-torch)
include(CPack)
