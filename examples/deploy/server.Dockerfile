# The server of a deployment: Flower's SuperLink with nginx in front. Build it from the root of the repository:
#   docker build -f examples/deploy/server.Dockerfile -t fedloom-server .
# The server's folder is mounted at /folder and belongs to user 10001; it is the only place that is written to.
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends nginx && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip install --no-cache-dir -c /source/constraints.txt "/source[deploy]" && rm -rf /source
RUN useradd --uid 10001 --no-create-home fedloom
USER fedloom
WORKDIR /folder
VOLUME /folder
EXPOSE 8443
STOPSIGNAL SIGTERM
ENTRYPOINT ["fedloom", "deploy"]
CMD ["server", "."]
