tenon_device(opencl DEVICE opencl MODELS all TIMEOUT_MS 60000 OPTIONAL)
