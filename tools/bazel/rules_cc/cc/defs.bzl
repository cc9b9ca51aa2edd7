"""The names of rules_cc that Bazel's own Python rules load, as Bazel's native rules.

No C++ is built here; standing in for rules_cc spares a build its one download.
"""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_import = native.objc_import
objc_library = native.objc_library
cc_proto_library = native.cc_proto_library
fdo_prefetch_hints = native.fdo_prefetch_hints
fdo_profile = native.fdo_profile
cc_flags_supplier = None
compiler_flag = None
