# The image, built with Docker; `make image` builds it without Docker. For both architectures at once:
#   docker buildx build --platform linux/amd64,linux/arm64 --tag <registry>/node-resource-advertiser:<version> --push .

# Cross-compiles natively: emulation would take an hour.
FROM --platform=$BUILDPLATFORM rust:1.95.0-bookworm AS build
ARG TARGETARCH
RUN if [ "$TARGETARCH" != "$(dpkg --print-architecture)" ]; then \
        apt-get update && apt-get install --yes "crossbuild-essential-$TARGETARCH"; \
    fi
RUN case "$TARGETARCH" in \
        amd64) echo x86_64 ;; \
        arm64) echo aarch64 ;; \
        *) echo "unsupported architecture $TARGETARCH: use amd64 or arm64" >&2; exit 1 ;; \
    esac > /machine \
    && rustup target add "$(cat /machine)-unknown-linux-gnu"
# Without this entry the program would have root's group in a pod that sets no user.
RUN printf 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' > /passwd
RUN cargo install --locked --features cli --version 0.9.3 cargo-about
WORKDIR /source
COPY . .
RUN hack/licenses.sh /licenses
# Static, because the image contains nothing else; see hack/program.sh. The machine's paths are removed.
RUN machine=$(cat /machine) && target=$machine-unknown-linux-gnu \
    && cargo fetch --locked \
    && RUSTFLAGS="-C target-feature=+crt-static\
        $(printf -- '--remap-path-prefix=%s=/registry ' "$CARGO_HOME"/registry/src/*)" \
        cargo build --release --locked --target "$target" --bin node-resource-advertiser \
        --config "target.$target.linker='$machine-linux-gnu-gcc'" \
    && cp "target/$target/release/node-resource-advertiser" /

FROM scratch
LABEL org.opencontainers.image.title="node-resource-advertiser" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/noderesource/node-resource-advertiser"
COPY --from=build /passwd /etc/
COPY --from=build /licenses /licenses
COPY --from=build /node-resource-advertiser /
# By number: runAsNonRoot in Kubernetes cannot check a name.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/node-resource-advertiser"]
CMD ["run"]
