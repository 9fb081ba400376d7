#!/usr/bin/env python3
"""An S3 server with one user: moto, which checks signatures. `s3.py ADDRESS` serves the file that comes by standard input as
/disks/a/disk one.img, says URL, id and key of the user in a line each, and ends with its standard output's reader or by a signal.
"""

import json
import os
import sys
import time

# So many requests make the user and the object; from then on each must be signed, and the user may read disks alone.
FIRST = 5
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(FIRST)

import boto3  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

MAY_READ = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}


def main(address: str) -> None:
    disk = sys.stdin.buffer.read()
    server = ThreadedMotoServer(address, 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    nobody = {"region_name": "us-east-1", "aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    iam = boto3.client("iam", endpoint_url=endpoint, **nobody)
    s3 = boto3.client("s3", endpoint_url=endpoint, **nobody)
    iam.create_user(UserName="reader")
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(MAY_READ))
    s3.create_bucket(Bucket="disks")
    s3.put_object(Bucket="disks", Key="a/disk one.img", Body=disk)
    for line in (f"{endpoint}/disks/a/disk%20one.img", key["AccessKeyId"], key["SecretAccessKey"]):
        print(line, flush=True)
    while True:
        time.sleep(3600)


main(sys.argv[1])
