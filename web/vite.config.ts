import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// Fixed names: the server embeds these files, and answers with an ETag of their content.
export default defineConfig({
  base: "./",
  plugins: [preact()],
  build: {
    outDir: "../crates/leyden-server/web",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/app.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: ({ names }) => (names[0]?.startsWith("pdf.worker") ? "assets/pdf.worker.js" : "assets/app[extname]"),
      },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/metrics": "http://127.0.0.1:8080", "/health": "http://127.0.0.1:8080", "/version": "http://127.0.0.1:8080", "/openapi.json": "http://127.0.0.1:8080" } },
});
