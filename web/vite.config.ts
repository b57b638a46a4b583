import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

/** Where `npm run dev` sends calls: the mock by default, or a real server (`SLIPWAY_URL=http://127.0.0.1:8080`). */
const server = process.env['SLIPWAY_URL'] ?? 'http://127.0.0.1:4010';

export default defineConfig({
  plugins: [react()],
  build: {
    target: 'es2022',
    // Vite's own gzip report costs more time than the build; scripts/compress.mjs says the sizes.
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: {
    port: 5173,
    proxy: {
      '/api': { target: server },
      '/tunnels': { target: server },
      '/readyz': { target: server },
      '/metrics': { target: server },
      '/2.0': { target: server, ws: true },
    },
  },
  test: {
    // Tests that draw or need an address say so in their first line; a document costs seconds on a small machine.
    environment: 'node',
    include: ['src/**/*.test.{ts,tsx}'],
    restoreMocks: true,
  },
});
