# Sets MC2_WITH_MPI to ON or OFF. With MC2_WITH_MPI=ON in the cache a missing MPI is an error; with AUTO it is a message.
set(MPI_CXX_SKIP_MPICXX TRUE) # the C interface is all that is used
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND AND MPI_CXX_VERSION VERSION_GREATER_EQUAL 3.1)
  message(STATUS "mpi backend: MPI ${MPI_CXX_VERSION}, launcher ${MPIEXEC_EXECUTABLE}")
  set(MC2_WITH_MPI ON)
elseif(MC2_WITH_MPI STREQUAL "ON")
  message(FATAL_ERROR "MC2_WITH_MPI=ON needs MPI 3.1 or later, such as libopenmpi-dev and openmpi-bin")
else()
  message(STATUS "mpi backend: left out, MPI not found")
  set(MC2_WITH_MPI OFF)
endif()
