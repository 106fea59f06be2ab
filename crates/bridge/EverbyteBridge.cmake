# everbyte_bridge(TARGET CRATE): compiles the Rust crate in that directory, makes its C++ headers,
# and links TARGET with it: with its static library if its `crate-type` has `staticlib`, else with the
# shared one. A program is linked with one static library of Rust at most.
function(everbyte_bridge target crate)
  find_program(EVERBYTE_PROGRAM everbyte HINTS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../bin" REQUIRED)
  get_filename_component(crate "${crate}" ABSOLUTE)
  file(READ "${crate}/Cargo.toml" manifest)
  # The name of the library, else that of its package. A section begins with a `[` that begins a line.
  if(manifest MATCHES "\n\\[lib\\]([^[]|[^\n][[])*\nname = \"([A-Za-z0-9_-]+)\"")
    string(REPLACE "-" "_" name "${CMAKE_MATCH_2}")
  elseif(manifest MATCHES "\nname = \"([A-Za-z0-9_-]+)\"")
    string(REPLACE "-" "_" name "${CMAKE_MATCH_1}")
  else()
    message(FATAL_ERROR "${crate}/Cargo.toml: no name of a library or a package")
  endif()
  set(place "${CMAKE_CURRENT_BINARY_DIR}/bridge/${name}")
  if(manifest MATCHES "\ncrate-type = \\[[^]]*\"staticlib\"")
    find_package(Threads REQUIRED)
    set(library "${place}/target/release/lib${name}.a")
    set(system Threads::Threads ${CMAKE_DL_LIBS} gcc_s m)
  else()
    set(library "${place}/target/release/lib${name}.so")
    set(system)
  endif()
  set(headers "${place}/include")
  file(MAKE_DIRECTORY "${headers}")
  # One for all programs of a directory that use the crate: no file has two rules.
  string(MD5 made "${place} ${crate}")
  string(SUBSTRING "${made}" 0 8 made)
  set(made "everbyte_bridge_${name}_${made}")
  if(NOT TARGET ${made})
    add_custom_target(${made}
      COMMAND "${CMAKE_COMMAND}" -E env "CARGO_TARGET_DIR=${place}/target"
        "${EVERBYTE_PROGRAM}" bridge build "${crate}" --release --headers "${headers}"
      BYPRODUCTS "${library}" VERBATIM)
  endif()
  add_dependencies(${target} ${made})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_include_directories(${target} PRIVATE "${headers}" $<TARGET_PROPERTY:everbyte::everbyte,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(${target} PRIVATE "${library}" ${system})
endfunction()
