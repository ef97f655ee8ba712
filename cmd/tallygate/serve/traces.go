package serve

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/tallygate/tallygate/cmd/tallygate/version"
)

// openTraces creates the exporter of traces, if it is configured. Spans are sent in the background;
// those that the receiver does not take in time are dropped. OpenTelemetry reads its settings from
// its own variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME).
func (a *App) openTraces(ctx context.Context) error {
	if !a.config.Traces {
		return nil
	}

	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return fmt.Errorf("--traces: %w", err)
	}

	// The detectors of the host and the process are left out: they add its command line and user.
	described, err := resource.New(ctx, resource.WithAttributes(
		semconv.ServiceName("tallygate"), semconv.ServiceVersion(version.Read().String()),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("--traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}

	a.logTraceErrors()
	a.traces = sdktrace.NewTracerProvider(sdktrace.WithBatcher(traceExporter{exporter, a.traceFailures}), sdktrace.WithResource(described))
	a.tracer = a.traces.Tracer("github.com/tallygate/tallygate")
	return nil
}

// logTraceErrors makes OpenTelemetry log its other errors, such as spans that a receiver refuses, as lines of this
// program. Its handler is common to all of a process.
func (a *App) logTraceErrors() { otel.SetErrorHandler(otel.ErrorHandlerFunc(a.traceFailures.fail)) }

// stopTraces sends the remaining spans, within three seconds.
func (a *App) stopTraces() {
	if a.traces == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()

	if err := a.traces.Shutdown(ctx); err != nil {
		a.log.Warn("some traces were not sent", "error", err)
	}
}
