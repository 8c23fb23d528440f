import { OpenTelemetry } from '@ai-sdk/otel';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, isStepCount, registerTelemetry, tool } from 'ai';
import { z } from 'zod';

const spans = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
spans.register();
registerTelemetry(new OpenTelemetry());

const model = createOpenAICompatible({ name: 'mock', baseURL: process.env.MODEL_URL })('m1');
const weather = tool({
  description: 'Weather of a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    if (city === 'Nowhere') throw new Error('no such city');
    return `${city}: sunny`;
  },
});
let messages = [];
for (const prompt of process.argv.slice(2)) {
  messages = [...messages, { role: 'user', content: prompt }];
  const result = await generateText({
    model, messages, system: 'Be brief.', tools: { weather }, stopWhen: isStepCount(5),
    telemetry: { functionId: 'traveller', isEnabled: true },
  });
  messages = [...messages, ...(result.response?.messages ?? result.responseMessages ?? [])];
}
await spans.forceFlush();
