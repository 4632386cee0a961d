# A site of a deployment. It opens no port: it connects to the server. Build it from the root of the repository:
#   docker build -f examples/deploy/site.Dockerfile -t fedloom-site .
# The site's folder is mounted at /folder and belongs to user 10001; its data may be in it, or mounted read-only at /data.
FROM python:3.11-slim-bookworm
COPY . /source
RUN pip install --no-cache-dir -c /source/constraints.txt "/source[deploy]" && rm -rf /source
RUN useradd --uid 10001 --no-create-home fedloom
USER fedloom
WORKDIR /folder
VOLUME /folder
STOPSIGNAL SIGTERM
ENTRYPOINT ["fedloom", "deploy"]
CMD ["client", "."]
