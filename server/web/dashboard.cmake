# The dashboard: Vite builds server/web, and the result is compiled into the program. Sets dashboard_source, and
# MC2_HAS_DASHBOARD for the tests.
#
# cmake fetches the packages from the npm registry at the first run and whenever package-lock.json has changed; building needs
# no network. If fetching fails, AUTO leaves the dashboard out, and the next run of cmake tries again.
set(MC2_DASHBOARD AUTO CACHE STRING "Build the dashboard of mc2 serve: AUTO, ON or OFF")
set_property(CACHE MC2_DASHBOARD PROPERTY STRINGS AUTO ON OFF)

set(dashboard_source src/no_dashboard.cpp)
set(MC2_HAS_DASHBOARD OFF CACHE INTERNAL "")
set(dashboard_directory ${CMAKE_CURRENT_BINARY_DIR}/web CACHE INTERNAL "")
set(dashboard_files package.json package-lock.json .npmrc)
list(TRANSFORM dashboard_files PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${dashboard_files})

# Installs the packages. Sets `reason` to why there can be no dashboard, or to an empty text.
function(mc2_install_dashboard_packages)
  find_program(MC2_NODE node)
  find_program(MC2_NPM npm)
  if(NOT MC2_NODE OR NOT MC2_NPM)
    set(reason "node and npm are not installed" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${MC2_NODE} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX REPLACE "^v" "" version "${version}")
  if(version VERSION_LESS 18)
    set(reason "node is ${version}; it must be 18 or later" PARENT_SCOPE)
    return()
  endif()
  file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/package-lock.json lock_digest)
  set(stamp ${dashboard_directory}/node_modules/.mc2-${lock_digest})
  file(COPY ${dashboard_files} DESTINATION ${dashboard_directory})
  set(reason "" PARENT_SCOPE)
  if(EXISTS ${stamp})
    return()
  endif()
  message(STATUS "Fetching the dashboard's packages from the npm registry")
  execute_process(
    COMMAND ${MC2_NPM} ci --ignore-scripts --no-progress --fetch-retries=1 --fetch-timeout=30000
    WORKING_DIRECTORY ${dashboard_directory} RESULT_VARIABLE result TIMEOUT 180
    OUTPUT_FILE ${CMAKE_CURRENT_BINARY_DIR}/npm-ci.log ERROR_FILE ${CMAKE_CURRENT_BINARY_DIR}/npm-ci.log)
  if(NOT result EQUAL 0)
    message(STATUS "The output of npm ci is in ${CMAKE_CURRENT_BINARY_DIR}/npm-ci.log")
    set(reason "npm ci could not fetch its packages (${result})" PARENT_SCOPE)
    return()
  endif()
  file(TOUCH ${stamp})
endfunction()

set(dashboard_missing "it was configured with MC2_DASHBOARD=OFF, as './dev demo' does")
if(NOT MC2_DASHBOARD STREQUAL "OFF")
  mc2_install_dashboard_packages()
  set(dashboard_missing "${reason}")
endif()
set(MC2_DASHBOARD_MISSING "${dashboard_missing}" CACHE INTERNAL "") # why there is no dashboard, for ./dev and for GET /
if(MC2_DASHBOARD STREQUAL "ON" AND dashboard_missing)
  message(FATAL_ERROR "MC2_DASHBOARD=ON, but ${dashboard_missing}")
endif()
if(dashboard_missing)
  message(STATUS "No dashboard: ${dashboard_missing}")
  return()
endif()

set(MC2_HAS_DASHBOARD ON CACHE INTERNAL "")
set(dashboard_source ${CMAKE_CURRENT_BINARY_DIR}/dashboard_files.cpp)
set(dashboard_inputs
  embed.mjs
  index.html
  package.json
  package-lock.json
  tsconfig.json
  vite.config.ts)
file(GLOB_RECURSE dashboard_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/src/*)
list(TRANSFORM dashboard_inputs PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
# Sources are copied beside the packages, so that the source tree stays as it was checked out. The schema is copied to where
# vite.config.ts looks for it.
set(dashboard_schema ${PROJECT_SOURCE_DIR}/schemas/common.schema.json)
add_custom_command(
  OUTPUT ${dashboard_source}
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${dashboard_directory}/src ${dashboard_directory}/dist
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_CURRENT_LIST_DIR}/src ${dashboard_directory}/src
  COMMAND ${CMAKE_COMMAND} -E copy ${dashboard_inputs} ${dashboard_directory}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${dashboard_directory}/../../schemas
  COMMAND ${CMAKE_COMMAND} -E copy ${dashboard_schema} ${dashboard_directory}/../../schemas
  COMMAND ${MC2_NPM} run --silent build -- --logLevel warn
  COMMAND ${MC2_NODE} embed.mjs dist ${dashboard_source}
  DEPENDS ${dashboard_inputs} ${dashboard_sources} ${dashboard_schema} ${CMAKE_CURRENT_LIST_DIR}/.npmrc
  WORKING_DIRECTORY ${dashboard_directory}
  COMMENT "Building the dashboard"
  VERBATIM)
