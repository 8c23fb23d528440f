// Package otlplimitsextension is a Collector extension, otlp_limits, that is in front of the decoders of OTLP
// receivers. It refuses requests that are nested too deep or whose decoded form takes too much memory, and bounds how
// much memory all requests take that are read, decoded or handled at the same time. The Collector's memory_limiter
// looks at a request only after it was decoded.
//
//	extensions:
//	  otlp_limits:
//	    max_request_mib: 160
//	    max_in_flight_mib: 256
//	receivers:
//	  otlp:
//	    protocols:
//	      grpc: {middlewares: [id: otlp_limits]}
//	      http: {middlewares: [id: otlp_limits]}
//	service:
//	  extensions: [otlp_limits]
package otlplimitsextension
